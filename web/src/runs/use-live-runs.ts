/** A list of runs that follows what happens: changes in place, new runs on top, and never a row that jumps away. */

import { useIsFetching, useQueryClient } from "@tanstack/react-query";
import { type RefObject, useEffect, useMemo, useRef, useState } from "react";
import type { TableHandle } from "../table/data-table";
import { mayLeave } from "./live-filter";
import { addWaiting, dropExpired, mergeLive, type Waiting } from "./live-rows";
import { type Gap, type LiveState, useLive } from "./use-live";
import { type Run, type RunPages, type RunQuery, runKey, runsKey } from "./use-runs";

/** How long a row that came or changed is marked. */
const MARKED_MS = 2_500;
/** New runs that wait until the user shows them; of more, only the number is known. */
const MOST_WAITING = 1_000;
/** Changes that are kept while the list is being read. */
const MOST_HELD = 5_000;
/** How often a list that runs may leave is read again. */
const AGAIN_MS = 5_000;
/** Runs on the first page, which grows, before the list is reloaded. */
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
  /** Whether runs may leave the list, so that its beginning is read again and again. */
  isReadAgain: boolean;
  /** Why the list may lack something. */
  gap: Gap | undefined;
  /** Shows what waits, from the top. */
  show: () => void;
  /** Reloads the list from the top. */
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
  const held = useRef(new Map<string, Run>());
  const name = JSON.stringify(query);

  // biome-ignore lint/correctness/useExhaustiveDependencies: another list begins without what came for the one before
  useEffect(() => {
    setWaiting(NONE);
    setGap(undefined);
    setSaid("");
    sums.current = { added: 0, changed: 0, at: 0 };
    since.current = new Date().toISOString();
    held.current.clear();
    marks.current.clear();
    setMarked(new Set());
  }, [name, isOn]);

  const key = runsKey(query);
  const isBusy = () => (client.getQueryState(key)?.fetchStatus ?? "idle") !== "idle";
  /** Reads its first page; the others are read on scroll. */
  const readTop = () => {
    client.setQueryData<RunPages>(key, (pages) => pages && firstOnly(pages));
    client.invalidateQueries({ queryKey: key, exact: true });
    client.invalidateQueries({ queryKey: ["run-count"] });
  };
  const reload = () => {
    setWaiting(NONE);
    setGap(undefined);
    table.current?.toTop();
    readTop();
  };

  const isMarked = marked.size > 0;
  useEffect(() => {
    if (!isMarked) return;
    const timer = setInterval(() => {
      if (dropExpired(marks.current, Date.now())) setMarked(new Set(marks.current.keys()));
    }, 500);
    return () => clearInterval(timer);
  }, [isMarked]);

  const mark = (keys: string[]) => {
    if (keys.length === 0) return;
    const now = Date.now();
    dropExpired(marks.current, now);
    for (const key of keys) marks.current.set(key, now + MARKED_MS);
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

  /** Shows what came, unless the list is being read: that ends with what was there when it began. */
  const put = () => {
    if (held.current.size === 0 || isBusy()) return;
    const runs = [...held.current.values()];
    held.current.clear();
    const before = client.getQueryData<RunPages>(key);
    if (!before) return;
    const takesNew = isNewestFirst && (table.current?.isAtTop() ?? true) && waiting === NONE;
    const merged = mergeLive(before, runs, takesNew, isNewestFirst);
    // In another order the position of a run is unknown: only runs that started since then are new.
    if (!isNewestFirst) merged.waiting = merged.waiting.filter((run) => run.started_at >= since.current);
    if (merged.pages !== before) client.setQueryData<RunPages>(key, merged.pages);
    mark([...merged.added, ...merged.changed]);
    say(merged.added.length + merged.waiting.length, merged.changed.length);
    if (merged.waiting.length > 0) setWaiting((before) => addWaiting(before, merged.waiting, MOST_WAITING));
    // The list has grown long at its top: its end is dropped and read again on scroll.
    if ((merged.pages.pages[0]?.data.length ?? 0) > MOST_ON_TOP && takesNew) reload();
  };
  const isReading = useIsFetching({ queryKey: key, exact: true }) > 0;
  // biome-ignore lint/correctness/useExhaustiveDependencies: what was held is shown when reading ends
  useEffect(put, [isReading]);

  const state = useLive(query, isOn, {
    onRuns: (runs) => {
      for (const run of runs) held.current.set(runKey(run), run);
      if (held.current.size > MOST_HELD && isBusy()) {
        held.current.clear();
        setGap("too many");
      }
      put();
    },
    onGap: setGap,
    onOpen: () => {
      if (table.current?.isAtTop() ?? true) reload();
      else setGap("opened");
    },
  });

  const isReadAgain = useMemo(() => mayLeave(query), [query]);
  const latest = useRef(() => {});
  latest.current = () => {
    const isAtTop = table.current?.isAtTop() ?? true;
    if (isAtTop && waiting === NONE && !isBusy() && document.visibilityState === "visible") readTop();
  };
  const isFollowed = state === "on" && isReadAgain;
  useEffect(() => {
    if (!isFollowed) return;
    const timer = setInterval(() => latest.current(), AGAIN_MS);
    return () => clearInterval(timer);
  }, [isFollowed]);

  const show = () => {
    const before = client.getQueryData<RunPages>(key);
    if (!isNewestFirst || waiting.more > 0 || !before || isBusy()) return reload();
    const merged = mergeLive(before, waiting.runs, true);
    client.setQueryData<RunPages>(key, merged.pages);
    mark(merged.added);
    setWaiting(NONE);
    table.current?.toTop();
  };
  return { state, marked, waiting: waiting.runs.length + waiting.more, isReadAgain, gap, show, reload, said };
}

function firstOnly(pages: RunPages): RunPages {
  return { pages: pages.pages.slice(0, 1), pageParams: pages.pageParams.slice(0, 1) };
}
