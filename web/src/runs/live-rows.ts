/** Runs that come in live, put into the pages of a list that are there. Pure. */

import { type Run, type RunPages, runKey } from "./use-runs";

/** What came of a batch. */
export type Merged = {
  pages: RunPages;
  /** Keys of runs that were there and changed. */
  changed: string[];
  /** Keys of runs that were put in. */
  added: string[];
  /** Runs that were not there and were not put in, newest first. */
  waiting: Run[];
};

function isBefore(a: Run, b: Run): boolean {
  return a.started_at > b.started_at;
}

/**
 * Changes runs where they stand. Runs that are not there are put in by their start, if `takesNew`; those that belong
 * behind what was read so far are left to the pages that are still to come.
 */
export function mergeLive(pages: RunPages, runs: readonly Run[], takesNew: boolean, isNewestFirst = true): Merged {
  const come = new Map(runs.map((run) => [runKey(run), run]));
  const changed: string[] = [];
  let next = pages.pages.map((page) => {
    const isTouched = page.data.some((run) => come.has(runKey(run)));
    if (!isTouched) return page;
    const data = page.data.map((run) => {
      const key = runKey(run);
      const now = come.get(key);
      if (!now) return run;
      changed.push(key);
      come.delete(key);
      return now;
    });
    return { ...page, data };
  });

  const last = next.at(-1);
  const end = last?.has_more && isNewestFirst ? last.data.at(-1) : undefined;
  const fresh = [...come.values()]
    .filter((run) => !end || isBefore(run, end))
    .sort((a, b) => (isBefore(a, b) ? -1 : isBefore(b, a) ? 1 : 0));
  const isUnchanged = changed.length === 0;
  if (!takesNew || fresh.length === 0) {
    return { pages: isUnchanged ? pages : { ...pages, pages: next }, changed, added: [], waiting: fresh };
  }
  let from = 0;
  next = next.map((page, index) => {
    const until = page.data.at(-1);
    let to = from;
    // The last page takes what is left; each other one what lies before its end.
    while (to < fresh.length && (index === next.length - 1 || (until && isBefore(fresh[to] as Run, until)))) to += 1;
    const here = fresh.slice(from, to);
    from = to;
    return here.length > 0 ? { ...page, data: interleave(here, page.data) } : page;
  });
  return { pages: { ...pages, pages: next }, changed, added: fresh.map(runKey), waiting: [] };
}

/** Puts sorted runs among sorted ones. */
function interleave(fresh: readonly Run[], there: readonly Run[]): Run[] {
  const all: Run[] = [];
  let index = 0;
  for (const run of there) {
    while (index < fresh.length && isBefore(fresh[index] as Run, run)) all.push(fresh[index++] as Run);
    all.push(run);
  }
  return [...all, ...fresh.slice(index)];
}

/** Runs that wait to be shown. */
export type Waiting = {
  /** Each once and as it is now, newest first. */
  runs: readonly Run[];
  /** How many more there are, which were too many to keep. */
  more: number;
};

/** With these runs, and no more than `most` of all. */
export function addWaiting(before: Waiting, runs: readonly Run[], most: number): Waiting {
  const all = new Map(before.runs.map((run) => [runKey(run), run]));
  for (const run of runs) all.set(runKey(run), run);
  const sorted = [...all.values()].sort((a, b) => (isBefore(a, b) ? -1 : isBefore(b, a) ? 1 : 0));
  return { runs: sorted.slice(0, most), more: before.more + Math.max(0, sorted.length - most) };
}

/** Forgets rows whose time is over; says whether there were any. */
export function dropExpired(marks: Map<string, number>, now: number): boolean {
  const before = marks.size;
  for (const [key, until] of marks) if (until <= now) marks.delete(key);
  return marks.size !== before;
}
