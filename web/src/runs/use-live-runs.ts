/** A list of runs that follows what happens: changes in place, new runs on top, and never a row that jumps away. */

import { useQueryClient } from "@tanstack/react-query";
import { type RefObject, useCallback, useEffect, useRef, useState } from "react";
import type { TableHandle } from "../table/data-table";
import { addWaiting, mergeLive, type Waiting } from "./live-rows";
import { type Gap, type LiveState, useLive } from "./use-live";
import { type RunPages, type RunQuery, runsKey } from "./use-runs";

/** How long a row that came or changed is marked. */
const MARKED_MS = 2_500;
/** New runs that are kept until somebody wants to see them; of more, only the number is known. */
const MOST_WAITING = 1_000;
/** Runs on the first page, which grows, before the list is read anew. */
const MOST_ON_TOP = 2_000;
const NONE: Waiting = { runs: [], more: 0 };
/** How often what came is said to those who do not see it. */
const SAID_MS = 5_000;

/** The live side of a list. */
export type LiveRuns = {
  state: LiveState;
  marked: ReadonlySet<string>;
  /** New runs that are not shown yet. */
  waiting: number;
  /** Why the list may lack something. */
  gap: Gap | undefined;
  /** Shows what waits, from the top. */
  show: () => void;
  /** Reads the list anew, from the top. */
  reload: () => void;
  /** What came, in words. */
  said: string;
};

/** Follows the list of this query, which is sorted by the newest start if `isNewestFirst`. */
export function useLiveRuns(
  query: RunQuery,
  isOn: boolean,
  isNewestFirst: boolean,
  table: RefObject<TableHandle | null>,
): LiveRuns {
  const client = useQueryClient();
  const [marked, setMarked] = useState<ReadonlySet<string>>(new Set());
  const marks = useRef(new Map<string, number>());
  const [waiting, setWaiting] = useState<Waiting>(NONE);
  const [gap, setGap] = useState<Gap>();
  const [said, setSaid] = useState("");
  const sums = useRef({ added: 0, changed: 0, at: 0 });
  const since = useRef("");
  const name = JSON.stringify(query);

  // biome-ignore lint/correctness/useExhaustiveDependencies: another list begins without what came for the one before
  useEffect(() => {
    setWaiting(NONE);
    setGap(undefined);
    setSaid("");
    sums.current = { added: 0, changed: 0, at: 0 };
    since.current = new Date().toISOString();
    marks.current.clear();
    setMarked(new Set());
  }, [name, isOn]);

  const forgetWaiting = useCallback(() => {
    setWaiting(NONE);
    setGap(undefined);
  }, []);
  const reload = () => {
    forgetWaiting();
    table.current?.toTop();
    const key = runsKey(query);
    client.setQueryData<RunPages>(key, (pages) => pages && firstOnly(pages));
    client.invalidateQueries({ queryKey: key });
    client.invalidateQueries({ queryKey: ["run-count"] });
  };

  useEffect(() => {
    if (marked.size === 0) return;
    const timer = setInterval(() => {
      const now = Date.now();
      for (const [key, until] of marks.current) if (until < now) marks.current.delete(key);
      if (marks.current.size !== marked.size) setMarked(new Set(marks.current.keys()));
    }, 500);
    return () => clearInterval(timer);
  }, [marked]);

  const mark = (keys: string[]) => {
    if (keys.length === 0) return;
    for (const key of keys) marks.current.set(key, Date.now() + MARKED_MS);
    setMarked(new Set(marks.current.keys()));
  };
  const say = (added: number, changed: number) => {
    const sum = sums.current;
    sum.added += added;
    sum.changed += changed;
    if (Date.now() - sum.at < SAID_MS) return;
    sum.at = Date.now();
    if (added > 0) client.invalidateQueries({ queryKey: ["run-count"] });
    setSaid(`${sum.added} new and ${sum.changed} changed runs since live was switched on.`);
  };

  const state = useLive(query, isOn, {
    onRuns: (runs) => {
      const before = client.getQueryData<RunPages>(runsKey(query));
      if (!before) return;
      const takesNew = isNewestFirst && (table.current?.isAtTop() ?? true) && waiting === NONE;
      const merged = mergeLive(before, runs, takesNew, isNewestFirst);
      // In another order nobody can say where a run belongs: only those that began since are new.
      if (!isNewestFirst) merged.waiting = merged.waiting.filter((run) => run.started_at >= since.current);
      if (merged.pages !== before) client.setQueryData<RunPages>(runsKey(query), merged.pages);
      mark([...merged.added, ...merged.changed]);
      say(merged.added.length + merged.waiting.length, merged.changed.length);
      if (merged.waiting.length > 0) setWaiting((before) => addWaiting(before, merged.waiting, MOST_WAITING));
      // The list has grown long at its top: its end is let go and read again when somebody scrolls there.
      if ((merged.pages.pages[0]?.data.length ?? 0) > MOST_ON_TOP && takesNew) reload();
    },
    onGap: setGap,
    onOpen: () => {
      if (table.current?.isAtTop() ?? true) reload();
    },
  });

  const show = () => {
    const before = client.getQueryData<RunPages>(runsKey(query));
    if (!isNewestFirst || waiting.more > 0 || !before) return reload();
    const merged = mergeLive(before, waiting.runs, true);
    client.setQueryData<RunPages>(runsKey(query), merged.pages);
    mark(merged.added);
    setWaiting(NONE);
    table.current?.toTop();
  };
  return { state, marked, waiting: waiting.runs.length + waiting.more, gap, show, reload, said };
}

function firstOnly(pages: RunPages): RunPages {
  return { pages: pages.pages.slice(0, 1), pageParams: pages.pageParams.slice(0, 1) };
}
