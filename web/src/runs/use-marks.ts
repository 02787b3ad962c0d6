/** Feedback, saving and letting go of a run. Lists show it at once; the server's answer means that it is durable. */

import { type QueryClient, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, ask } from "../api/client";
import { type Run, type RunPages, runKey } from "./use-runs";

/** What can be said of a run. */
export type Mark =
  | { kind: "feedback"; rating: "positive" | "negative"; comment?: string }
  | { kind: "save" }
  | { kind: "unsave" };

/** How long the server may take until a mark is in what it answers. */
const SEEN_MS = 2_500;

function marked(run: Run, mark: Mark, at: string): Run {
  if (mark.kind === "feedback") {
    return { ...run, feedback: { rating: mark.rating, comment: mark.comment ?? null, at } };
  }
  return { ...run, saved: mark.kind === "save" };
}

/** Changes a run wherever it is listed. */
function patchRun(client: QueryClient, of: Run, change: (run: Run) => Run) {
  const key = runKey(of);
  client.setQueriesData<RunPages>({ queryKey: ["runs"] }, (pages) => {
    if (!pages?.pages.some((page) => page.data.some((run) => runKey(run) === key))) return pages;
    const next = pages.pages.map((page) => ({
      ...page,
      data: page.data.map((run) => (runKey(run) === key ? change(run) : run)),
    }));
    return { ...pages, pages: next };
  });
}

/** Marks runs. What could not be sent is taken back. */
export function useMark() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ run, mark, at, id }: { run: Run; mark: Mark; at: string; id: string }) => {
      const { run_id, app_id, project_id } = run;
      const params = { path: { run_id }, query: { app_id, ...(project_id ? { project_id } : {}) } };
      // The same act sent again changes nothing.
      const act = { event_id: id, timestamp: at };
      if (mark.kind === "save") return ask(api.POST("/api/run/{run_id}/save", { params, body: act }));
      if (mark.kind === "unsave") return ask(api.POST("/api/run/{run_id}/unsave", { params, body: act }));
      const { rating, comment } = mark;
      const body = { rating, ...(comment ? { comment } : {}), ...act };
      return ask(api.POST("/api/run/{run_id}/feedback", { params, body }));
    },
    onMutate: ({ run, mark, at }) => patchRun(client, run, (one) => marked(one, mark, at)),
    onError: (_, { run }) =>
      patchRun(client, run, (one) => ({ ...one, feedback: run.feedback ?? null, saved: run.saved })),
    onSuccess: (_, { run }) => {
      setTimeout(() => {
        client.invalidateQueries({ queryKey: ["call", runKey(run)] });
        client.invalidateQueries({ queryKey: ["run-count"] });
      }, SEEN_MS);
    },
  });
}

/** An act of marking: with its own time and id, so that it can be sent again. */
export function markOf(run: Run, mark: Mark) {
  return { run, mark, at: new Date().toISOString(), id: actId() };
}

/** `crypto.randomUUID` is there only in secure contexts; an address in a local network is none. */
function actId(): string {
  const random = crypto.getRandomValues(new Uint8Array(16));
  return `ui-${[...random].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
