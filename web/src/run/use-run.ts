/** A run and its trace, which are asked for again while something in them is still going. */

import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { ApiFault, api, ask, type Shapes } from "../api/client";
import { askExact } from "../payload/ask-exact";
import type { RunName } from "../runs/run-link";
import { runKey } from "../runs/use-runs";
import { reserved } from "./reserved-id";
import { isGoing } from "./time-scale";

/** A whole run. */
export type RunDetail = Shapes["RunDetail"];

const GOING_MS = 2_000;
/** Model calls loaded at first, and with each "show more". */
export const CALLS_AT_ONCE = 100;
/** A large trace is some megabytes. */
const LARGE_SPANS = 500;
const LARGE_MS = 10_000;
/** How often a run that is not there is looked for, and how many times: some five minutes. */
const MISSING_MS = 2_000;
const MISSING_TIMES = 150;
/** How often it is looked whether the run shows what was just reported about it. */
const AWAITED_MS = 1_000;

/** Under what a run or its trace is kept. By its id alone, all that may be it are found. */
function keptAs(what: "run" | "trace", name: RunName | undefined) {
  return [what, name?.run_id, name && runKey(name)] as const;
}

function isMissing(error: unknown): boolean {
  return error instanceof ApiFault && error.status === 404;
}

/** The parameters that name a run. */
function named({ run_id, app_id, project_id }: RunName) {
  return {
    path: { run_id },
    query: { ...(app_id ? { app_id } : {}), ...(project_id ? { project_id } : {}) },
  };
}

/** Asks for a run; its payloads keep their numbers. */
async function askRun(name: RunName, signal: AbortSignal): Promise<RunDetail> {
  refuse(reserved(name.run_id));
  return askExact<RunDetail>(api.GET("/api/run/{run_id}", { params: named(name), signal, parseAs: "text" }));
}

function refuse(reason: string | undefined) {
  if (reason !== undefined) throw new Error(reason);
}

/** The run; asked for again while it goes, while it is missing, and while something reported about it is awaited. */
export function useRun(name: RunName, { isAwaiting = false, enabled = true, staleTime = 5_000 } = {}) {
  return useQuery({
    queryKey: keptAs("run", name),
    queryFn: ({ signal }) => askRun(name, signal),
    enabled,
    staleTime,
    refetchInterval: ({ state }) => {
      if (isMissing(state.error)) return state.errorUpdateCount < MISSING_TIMES ? MISSING_MS : false;
      if (isAwaiting) return AWAITED_MS;
      return state.data && isGoing(state.data) ? GOING_MS : false;
    },
  });
}

/** The run and everything below it; asked for again while anything in it goes. */
export function useTrace(name: RunName | undefined) {
  return useQuery({
    queryKey: keptAs("trace", name),
    queryFn: async ({ signal }) => {
      refuse(reserved(name?.run_id ?? "", true));
      return ask(api.GET("/api/run/{run_id}/tree", { params: named(name ?? { run_id: "" }), signal }));
    },
    enabled: name !== undefined,
    refetchInterval: ({ state }) => {
      const spans = state.data?.data;
      if (!spans?.some(isGoing)) return false;
      return spans.length > LARGE_SPANS ? LARGE_MS : GOING_MS;
    },
  });
}

/** The model calls of a run, page after page; asked for again while it goes, as long as they are few. */
export function useCalls(run: RunDetail, projectId: string | undefined) {
  const { run_id, app_id } = run;
  const name: RunName = { run_id, app_id, project_id: projectId };
  return useInfiniteQuery({
    queryKey: ["calls", run_id, runKey(name)],
    queryFn: ({ pageParam, signal }) => {
      const { path, query } = named(name);
      const page = { ...query, limit: CALLS_AT_ONCE, ...(pageParam ? { cursor: pageParam } : {}) };
      return ask(api.GET("/api/run/{run_id}/calls", { params: { path, query: page }, signal }));
    },
    initialPageParam: "",
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    refetchInterval: ({ state }) => (isGoing(run) && (state.data?.pages.length ?? 0) <= 1 ? GOING_MS : false),
  });
}
