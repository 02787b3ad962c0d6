/**
 * Feedback, saving and letting go of a run, for all pages. Lists show it at once; the server's answer means that it is
 * durable, and a moment later it is in what the server answers.
 */

import { type QueryClient, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, ask } from "../api/client";
import { randomId } from "../parts/random-id";
import { type Act, findRun, type Mark, marked, patchPages, type Shown, standing, unmarked } from "./marks";
import type { RunName } from "./run-link";
import { type Run, type RunPages, runKey } from "./use-runs";

/** How long the server may take until a mark is in what it answers. */
const SEEN_MS = 2_500;
const LISTS = { queryKey: ["runs"] };

/** An act of marking, as it will be sent however often it takes. */
export function markOf({ run_id, app_id, project_id }: RunName, mark: Mark): Act {
  return { run: { run_id, app_id, project_id }, mark, at: new Date().toISOString(), id: `ui-${randomId()}` };
}

function send({ run, mark, at, id }: Act) {
  const { run_id, app_id, project_id } = run;
  const query = { ...(app_id ? { app_id } : {}), ...(project_id ? { project_id } : {}) };
  const params = { path: { run_id }, query };
  // The same act sent again changes nothing.
  const act = { event_id: id, timestamp: at };
  if (mark.kind === "save") return ask(api.POST("/api/run/{run_id}/save", { params, body: act }));
  if (mark.kind === "unsave") return ask(api.POST("/api/run/{run_id}/unsave", { params, body: act }));
  const { rating, comment } = mark;
  const body = { rating, ...(comment ? { comment } : {}), ...act };
  return ask(api.POST("/api/run/{run_id}/feedback", { params, body }));
}

/**
 * Changes a run wherever it is listed. What is being read of those lists is let go first: at its end it would put back
 * what was there at its beginning. Gives the lists that have to be read again for it.
 */
export async function patchRun(client: QueryClient, of: RunName, change: (run: Run) => Run) {
  const key = runKey(of);
  const busy = client
    .getQueryCache()
    .findAll(LISTS)
    .filter(({ state }) => state.fetchStatus !== "idle" && findRun(state.data as RunPages, key));
  // The end of the list requests a further page again.
  const again = busy.filter(({ state }) => !state.fetchMeta?.fetchMore).map((query) => query.queryKey);
  await Promise.all(busy.map((query) => client.cancelQueries({ queryKey: query.queryKey, exact: true })));
  client.setQueriesData<RunPages>(LISTS, (pages) => patchPages(pages, key, change));
  return again;
}

/** Feedback before that which failed, by the time of the latter. */
const failed = new Map<string, Shown["feedback"]>();

/** Marks runs. What could not be sent is taken back. `onDone` receives what the server accepted. */
export function useMark(onDone?: (act: Act) => void) {
  const client = useQueryClient();
  const readAgain = (lists: readonly (readonly unknown[])[]) => {
    for (const queryKey of lists) void client.invalidateQueries({ queryKey, exact: true });
  };
  return useMutation({
    mutationFn: send,
    onMutate: async (act: Act) => {
      const key = runKey(act.run);
      const lists = client.getQueriesData<RunPages>(LISTS);
      const before = lists.map(([, pages]) => findRun(pages, key)).find((run) => run !== undefined);
      return { before, again: await patchRun(client, act.run, (run) => marked(run, act)) };
    },
    onError: async (_, act, kept) => {
      if (!kept?.before) return;
      const before = { ...kept.before, feedback: standing(kept.before.feedback, failed) };
      if (act.mark.kind === "feedback") failed.set(act.at, before.feedback);
      readAgain([...kept.again, ...(await patchRun(client, act.run, (run) => unmarked(run, act, before)))]);
    },
    onSuccess: (_, act, kept) => {
      onDone?.(act);
      const { run } = act;
      setTimeout(() => {
        readAgain(kept.again);
        // The dataset is what is saved: it is another list at the next visit.
        if (act.mark.kind !== "feedback") {
          void client.invalidateQueries({
            queryKey: ["runs", "/api/dataset"],
            predicate: ({ state }) => !findRun(state.data as RunPages | undefined, runKey(run)),
            refetchType: "none",
          });
        }
        void client.invalidateQueries({ queryKey: ["run", run.run_id] });
        void client.invalidateQueries({ queryKey: ["run-count"] });
        void client.invalidateQueries({ queryKey: ["threads"] });
      }, SEEN_MS);
    },
  });
}
