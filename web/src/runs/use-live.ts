/** Runs as they change, from the server's stream of events. */

import { useEffect, useRef, useState } from "react";
import { queryText } from "../api/client";
import { queryClient, SESSION } from "../api/query-client";
import { type Run, type RunQuery, runKey } from "./use-runs";

/** How the stream is. */
export type LiveState = "off" | "opening" | "on" | "waiting";
/** Why the list may lack something. */
export type Gap = "server" | "opened" | "reopened" | "too many";

/** Milliseconds in which changes are gathered: what is shown changes at most four times a second. */
const BATCH_MS = 250;
/** Runs a batch holds: a page that is not painted (a tab behind others) must not fill the memory. */
const MOST = 5_000;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 30_000;

type Takes = {
  /** A batch: each run once, as it is now. */
  onRuns: (runs: Run[]) => void;
  /** Changes were missed. */
  onGap: (gap: Gap) => void;
  /** The stream is there for the first time: what changed since the list was read is missing. */
  onOpen: () => void;
};

/** Follows the runs of this filter while `isOn`. */
export function useLive(query: RunQuery, isOn: boolean, takes: Takes): LiveState {
  const [state, setState] = useState<LiveState>("off");
  const latest = useRef(takes);
  latest.current = takes;
  const { sort: _, ...filter } = query;
  const address = `/api/run/live?${queryText(filter)}`;

  useEffect(() => {
    if (!isOn) {
      setState("off");
      return;
    }
    let source: EventSource | undefined;
    let pause = FIRST_PAUSE_MS;
    let retry: ReturnType<typeof setTimeout> | undefined;
    let flush: ReturnType<typeof setTimeout> | undefined;
    let wasOpen = false;
    let batch = new Map<string, Run>();

    const send = () => {
      flush = undefined;
      const runs = [...batch.values()];
      batch = new Map();
      latest.current.onRuns(runs);
    };
    const take = (event: MessageEvent<string>) => {
      const run = readRun(event.data);
      if (!run) return;
      if (batch.size >= MOST) {
        batch.clear();
        latest.current.onGap("too many");
      }
      batch.set(runKey(run), run);
      flush ??= setTimeout(send, BATCH_MS);
    };
    const open = () => {
      setState("opening");
      const stream = new EventSource(address);
      source = stream;
      stream.addEventListener("run", take);
      stream.addEventListener("gap", () => latest.current.onGap("server"));
      stream.addEventListener("open", () => {
        setState("on");
        pause = FIRST_PAUSE_MS;
        if (!wasOpen) latest.current.onOpen();
        wasOpen = true;
      });
      stream.addEventListener("error", () => {
        setState("waiting");
        // Still connecting: the browser tries again by itself and says where it was.
        if (stream.readyState !== EventSource.CLOSED) return;
        stream.close();
        // Refused with a status: if the session ended, this shows the sign-in page.
        queryClient.invalidateQueries({ queryKey: SESSION });
        retry = setTimeout(() => {
          // A new stream begins now; what came in between is not shown.
          if (wasOpen) latest.current.onGap("reopened");
          open();
        }, pause);
        pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
      });
    };
    open();
    return () => {
      source?.close();
      clearTimeout(retry);
      clearTimeout(flush);
    };
  }, [address, isOn]);
  return state;
}

function readRun(text: string): Run | undefined {
  try {
    const run: unknown = JSON.parse(text);
    return typeof run === "object" && run !== null && "run_id" in run && "started_at" in run ? (run as Run) : undefined;
  } catch {
    return undefined;
  }
}
