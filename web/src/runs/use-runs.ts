/** Pages of runs, as far as one has scrolled, and how many there are. */

import { type InfiniteData, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { api, ask, type Shapes } from "../api/client";
import { count } from "../format";
import type { RunName } from "./run-link";

/** A run in a list. */
export type Run = Shapes["Run"];
/** A page of them. */
export type RunPage = Shapes["RunPage"];
/** All that was read of a list. */
export type RunPages = InfiniteData<RunPage, unknown>;
/** Where runs are read from. */
export type RunPath = "/api/run" | "/api/dataset";
/** What is asked. */
export type RunQuery = Record<string, string | string[]>;

/** Runs asked for at first: a few screens. */
const FIRST = 100;
/** Runs loaded on scroll. */
const NEXT = 500;
/** Pages up to which a list is read again by itself when it is shown again. */
const FEW = 3;
/** How long a list that is not looked at is kept, so that one can go back to it. */
const KEPT_MS = 15 * 60_000;

/** The name of a list in the cache. */
export function runsKey(query: RunQuery, path: RunPath = "/api/run") {
  return ["runs", path, query] as const;
}

const keys = new WeakMap<RunName, string>();

/** Identifies a run across projects. Long lists ask for it often. */
export function runKey(run: RunName): string {
  let key = keys.get(run);
  if (key === undefined) {
    key = JSON.stringify([run.project_id ?? "", run.app_id ?? "", run.run_id]);
    keys.set(run, key);
  }
  return key;
}

/** The runs of all pages, each once: one that moved while they were read may stand on two of them. */
export function allRuns(pages: RunPages | undefined): Run[] {
  const seen = new Set<string>();
  const all: Run[] = [];
  for (const page of pages?.pages ?? []) {
    for (const run of page.data) {
      const key = runKey(run);
      if (seen.has(key)) continue;
      seen.add(key);
      all.push(run);
    }
  }
  return all;
}

/** Runs of this filter and sort, page after page. `path` is the list they are read from. */
export function useRuns(query: RunQuery, path: RunPath = "/api/run") {
  return useInfiniteQuery({
    queryKey: runsKey(query, path),
    queryFn: ({ pageParam, signal }) => {
      const asked = { ...query, limit: pageParam ? NEXT : FIRST, ...(pageParam ? { cursor: pageParam } : {}) };
      // Values are checked by the server, which says what is wrong with them.
      return ask(api.GET(path, { params: { query: asked as object }, signal }));
    },
    initialPageParam: "",
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    // All pages would be read again, one after the other: with many, only on request.
    staleTime: (list) => ((list.state.data?.pages.length ?? 0) > FEW ? Number.POSITIVE_INFINITY : 5_000),
    gcTime: KEPT_MS,
  });
}

/** How many there are, in words: the server counts up to a bound. */
export function counted({ count: many, isCapped }: { count: number; isCapped: boolean }, one: string): string {
  return `${count(many)}${isCapped ? "+" : ""} ${one}${many === 1 ? "" : "s"}`;
}

/** How many runs match, up to what the server counts. Asked apart, so that the list need not wait for it. */
export function useRunCount(query: RunQuery, path: RunPath = "/api/run") {
  const { sort: _, ...filter } = query;
  return useQuery({
    queryKey: ["run-count", path, filter],
    queryFn: ({ signal }) =>
      ask(api.GET(path, { params: { query: { ...filter, limit: 1, count: true } as object }, signal })),
    select: (page) => ({ count: page.count ?? 0, isCapped: page.count_capped ?? false }),
    staleTime: 30_000,
  });
}
