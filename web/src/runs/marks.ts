/** Feedback and saves of a run, and their effect on the lists with the run. Pure. */

import type { RunName } from "./run-link";
import { type Run, type RunPages, runKey } from "./use-runs";

/** Rating of a run. */
export type Rating = "positive" | "negative";
/** What can be said of a run. */
export type Mark = { kind: "feedback"; rating: Rating; comment?: string } | { kind: "save" } | { kind: "unsave" };

/** An act of marking: with its own time and id, so that sent again it is the same. */
export type Act = { run: RunName; mark: Mark; at: string; id: string };

/** Whether two marks say the same. */
export function isSame(a: Mark, b: Mark): boolean {
  if (a.kind !== "feedback" || b.kind !== "feedback") return a.kind === b.kind;
  return a.rating === b.rating && a.comment === b.comment;
}

/** What a run shows of marks. */
export type Shown = { feedback?: Run["feedback"] | undefined; saved: boolean };

/** The run as it is after the act. */
export function marked(run: Run, { mark, at }: Act): Run {
  if (mark.kind === "feedback") {
    return { ...run, feedback: { rating: mark.rating, comment: mark.comment ?? null, at } };
  }
  return { ...run, saved: mark.kind === "save" };
}

/** The run without the act, which failed: what was said since then stays. */
export function unmarked(run: Run, { mark, at }: Act, before: Shown): Run {
  if (mark.kind === "feedback") {
    return run.feedback?.at === at ? { ...run, feedback: before.feedback ?? null } : run;
  }
  return run.saved === (mark.kind === "save") ? { ...run, saved: before.saved } : run;
}

/**
 * The feedback to go back to: not to one that failed meanwhile. `failed` has the times of those, and what there was
 * before each.
 */
export function standing(
  feedback: Shown["feedback"],
  failed: ReadonlyMap<string, Shown["feedback"]>,
): Shown["feedback"] {
  let back = feedback;
  while (back?.at && failed.has(back.at)) back = failed.get(back.at);
  return back ?? null;
}

/** The run in what was read of a list. Other things than lists have none. */
export function findRun(pages: RunPages | undefined, key: string): Run | undefined {
  for (const page of pages?.pages ?? []) {
    const found = page.data.find((run) => runKey(run) === key);
    if (found) return found;
  }
  return undefined;
}

/** Changes a run where it stands in a list. A list without it stays the same object. */
export function patchPages(pages: RunPages | undefined, key: string, change: (run: Run) => Run): RunPages | undefined {
  if (!pages || !findRun(pages, key)) return pages;
  const next = pages.pages.map((page) => ({
    ...page,
    data: page.data.map((run) => (runKey(run) === key ? change(run) : run)),
  }));
  return { ...pages, pages: next };
}
