import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { addWaiting, dropExpired, mergeLive } from "./live-rows";
import { type Run, type RunPages, runKey } from "./use-runs";

function run(id: number, minute = id, status = "success"): Run {
  return {
    run_id: `r${id}`,
    app_id: "a",
    root_run_id: `r${id}`,
    status,
    stale: false,
    tags: [],
    started_at: new Date(minute * 60_000).toISOString(),
    cost: 0,
    cost_status: "not_llm",
    total_cost: 0,
    total_tokens_with_children: 0,
    llm_calls: 0,
    error_count: 0,
    saved: false,
  };
}

/** Pages of runs, newest first; `hasMore` says whether the last one is the end. */
function pagesOf(ids: number[][], hasMore = true): RunPages {
  return {
    pages: ids.map((page, index) => ({
      data: page.map((id) => run(id)),
      has_more: hasMore || index < ids.length - 1,
      next_cursor: "c",
    })),
    pageParams: ids.map(() => ""),
  };
}

const ids = (pages: RunPages) => pages.pages.map((page) => page.data.map((one) => Number(one.run_id.slice(1))));

describe("live runs", () => {
  it("change where they stand, and nothing else moves", () => {
    const before = pagesOf([
      [9, 7],
      [5, 3],
    ]);
    const merged = mergeLive(before, [run(5, 5, "error")], true);
    expect(ids(merged.pages)).toEqual([
      [9, 7],
      [5, 3],
    ]);
    expect(merged.pages.pages[1]?.data[0]?.status).toBe("error");
    expect(merged.pages.pages[0]).toBe(before.pages[0]);
    expect(merged.changed).toEqual([runKey(run(5))]);
  });

  it("are put in by their start, unless they belong behind what was read", () => {
    const merged = mergeLive(
      pagesOf([
        [9, 7],
        [5, 3],
      ]),
      [run(1), run(10), run(6), run(8), run(4)],
      true,
    );
    expect(ids(merged.pages)).toEqual([
      [10, 9, 8, 7],
      [6, 5, 4, 3],
    ]);
    expect(merged.added).toHaveLength(4);
    expect(ids(mergeLive(pagesOf([[9, 7]], false), [run(1)], true).pages)).toEqual([[9, 7, 1]]);
    expect(ids(mergeLive(pagesOf([[]], false), [run(1), run(2)], true).pages)).toEqual([[2, 1]]);
  });

  it("wait, newest first, while the user reads further down", () => {
    const before = pagesOf([[9, 7]]);
    const merged = mergeLive(before, [run(10), run(11)], false);
    expect(merged.pages).toBe(before);
    expect(merged.waiting.map((one) => one.run_id)).toEqual(["r11", "r10"]);
    const first = addWaiting({ runs: [], more: 0 }, merged.waiting, 2);
    expect(first.more).toBe(0);
    const waiting = addWaiting(first, [run(11, 11, "error"), run(12)], 2);
    expect(waiting.runs.map((one) => [one.run_id, one.status])).toEqual([
      ["r12", "success"],
      ["r11", "error"],
    ]);
    expect(waiting.more).toBe(1);
  });

  it("leave the list sorted and each run in it once, whatever comes", () => {
    const some = fc.uniqueArray(fc.integer({ min: 0, max: 60 }), { maxLength: 30 });
    fc.assert(
      fc.property(some, some, fc.integer({ min: 1, max: 7 }), (there, come, size) => {
        const sorted = [...there].sort((a, b) => b - a);
        const cut: number[][] = [];
        for (let at = 0; at < sorted.length; at += size) cut.push(sorted.slice(at, at + size));
        const merged = mergeLive(
          pagesOf(cut.length > 0 ? cut : [[]], false),
          come.map((id) => run(id)),
          true,
        );
        const all = new Set([...there, ...come]);
        expect(ids(merged.pages).flat()).toEqual([...all].sort((a, b) => b - a));
      }),
    );
  });
});

describe("marks of live rows", () => {
  it("go when their time is over, however many come after them", () => {
    const marks = new Map<string, number>();
    for (let now = 0; now < 10_000; now += 250) {
      dropExpired(marks, now);
      marks.set(`r${now}`, now + 2_500);
      expect(marks.size).toBeLessThanOrEqual(10);
    }
    expect(dropExpired(marks, 9_000)).toBe(false);
    expect(dropExpired(marks, 20_000)).toBe(true);
    expect(marks.size).toBe(0);
  });
});
