import { describe, expect, it } from "vitest";
import { type Act, findRun, isSame, type Mark, marked, patchPages, standing, unmarked } from "./marks";
import { type Run, type RunPages, runKey } from "./use-runs";

const run: Run = {
  run_id: "r",
  app_id: "a",
  root_run_id: "r",
  status: "success",
  stale: false,
  tags: [],
  started_at: "2026-11-21T10:00:00.000Z",
  cost: 0,
  cost_status: "not_llm",
  total_cost: 0,
  total_tokens_with_children: 0,
  llm_calls: 0,
  error_count: 0,
  saved: false,
};
const pages: RunPages = { pages: [{ data: [run], has_more: false }], pageParams: [""] };
const act = (mark: Mark, second: number): Act => ({
  run,
  mark,
  at: `2026-11-21T10:00:0${second}.000Z`,
  id: `ui-${second}`,
});
const good = act({ kind: "feedback", rating: "positive" }, 1);
const bad = act({ kind: "feedback", rating: "negative", comment: "why" }, 2);
const save = act({ kind: "save" }, 3);
const unsave = act({ kind: "unsave" }, 4);

describe("a mark", () => {
  it("that fails is taken back, and nothing else with it", () => {
    const both = marked(marked(run, good), save);
    expect(both).toMatchObject({ saved: true, feedback: { rating: "positive", comment: null } });
    expect(unmarked(both, good, run)).toMatchObject({ saved: true, feedback: null });
    expect(unmarked(both, save, run)).toMatchObject({ saved: false, feedback: { rating: "positive" } });
  });

  it("that fails late leaves what was said after it", () => {
    const after = marked(marked(run, good), bad);
    expect(unmarked(after, good, run)).toBe(after);
    const unsaved = marked(marked(run, save), unsave);
    expect(unmarked(unsaved, save, run)).toBe(unsaved);
  });

  it("does not go back to one that failed before it", () => {
    const first = marked(run, good);
    const failed = new Map([[good.at, run.feedback ?? null]]);
    expect(standing(first.feedback, failed)).toBeNull();
    const known = { rating: "positive", comment: null, at: "2026-11-20T10:00:00.000Z" };
    expect(standing(known, failed)).toBe(known);
  });

  it("says the same as another one only with the same words", () => {
    expect(isSame(good.mark, { kind: "feedback", rating: "positive" })).toBe(true);
    expect(isSame(good.mark, { kind: "feedback", rating: "positive", comment: "yes" })).toBe(false);
    expect(isSame(good.mark, bad.mark)).toBe(false);
    expect(isSame(save.mark, unsave.mark)).toBe(false);
  });
});

describe("a run in lists", () => {
  it("is changed where it is, and only there", () => {
    const next = patchPages(pages, runKey(run), (one) => marked(one, bad));
    expect(findRun(next, runKey(run))?.feedback?.comment).toBe("why");
    expect(patchPages(pages, runKey({ ...run, project_id: "p" }), (one) => marked(one, bad))).toBe(pages);
    expect(patchPages(undefined, runKey(run), (one) => one)).toBeUndefined();
  });

  it("is not found in what is no list", () => {
    expect(findRun({ data: [run] } as unknown as RunPages, runKey(run))).toBeUndefined();
    expect(patchPages({ data: [run] } as unknown as RunPages, runKey(run), (one) => one)).toEqual({ data: [run] });
  });
});
