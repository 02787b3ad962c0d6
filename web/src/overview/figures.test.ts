import { describe, expect, it } from "vitest";
import { changeOf } from "./change";
import { type Group, nextSort, ordered, readSort } from "./group-order";
import { MEASURES, shortSeconds } from "./measures";
import { bucketText, dataOf, lonely, tickText } from "./plot";
import { sum } from "./series";

describe("a change", () => {
  it("is in percent of what was before", () => {
    expect(changeOf(150, 100)).toEqual({ text: "▲ +50 %", kind: "" });
    expect(changeOf(1, 4, { more: "worse" })).toEqual({ text: "▼ −75 %", kind: "good" });
    expect(changeOf(100_000, 10)).toEqual({ text: "▲ 10,000 times", kind: "" });
  });

  it("is in points where the figure is a share", () => {
    expect(changeOf(0.08, 0.055, { isShare: true, more: "worse" })).toEqual({ text: "▲ +2.5 points", kind: "bad" });
  });

  it("is none where there is nothing to compare", () => {
    expect(changeOf(null, 1)).toBeUndefined();
    expect(changeOf(1, undefined)).toBeUndefined();
    expect(changeOf(5, 0)?.text).toBe("none before");
    expect(changeOf(0, 0)?.text).toBe("no change");
    expect(changeOf(1000, 1001)?.text).toBe("no change");
  });
});

describe("groups in a table", () => {
  const group = (key: string | null, cost: number, p50: number | null): Group => ({
    key,
    ...sum([{ cost, runs: 1 }]),
    latency_p50_s: p50,
  });
  const groups = [group("b", 2, null), group(null, 3, 5), group("a", 1, 7)];
  const keys = (sort: string | null) => ordered(groups, sort).map((one) => one.key);

  it("are in the order that is asked for, what is not known last", () => {
    expect(keys(null)).toEqual([null, "b", "a"]);
    expect(keys("cost")).toEqual(["a", "b", null]);
    expect(keys("key")).toEqual(["a", "b", null]);
    expect(keys("-key")).toEqual(["b", "a", null]);
    expect(keys("p50")).toEqual([null, "a", "b"]);
    expect(keys("-p50")).toEqual(["a", null, "b"]);
  });

  it("turn round at the second time", () => {
    expect(nextSort("-cost", "cost")).toBe("cost");
    expect(nextSort("cost", "cost")).toBe("-cost");
    expect(nextSort(null, "runs")).toBe("-runs");
    expect(nextSort(null, "key")).toBe("key");
    expect(readSort("constructor")).toEqual({ column: "cost", isDown: true });
  });
});

describe("an axis", () => {
  it("has one unit", () => {
    expect([0, 50, 100, 150].map((value) => shortSeconds(value, 150))).toEqual(["0", "50 s", "100 s", "150 s"]);
    expect([60, 150, 240].map((value) => shortSeconds(value, 240))).toEqual(["1 min", "2.5 min", "4 min"]);
    expect(shortSeconds(0.25, 0.5)).toBe("250 ms");
    expect(shortSeconds(7200, 36_000)).toBe("2 h");
    const texts = Object.fromEntries(MEASURES.map(({ id, short }) => [id, short(0.125, 1)]));
    expect(texts).toMatchObject({ cost: "$0.125", errors: "12.5 %" });
  });

  it("counts days as the server does", () => {
    const start = Date.parse("2026-11-20T00:00:00Z");
    expect(tickText(start / 1000, "day")).toBe("Nov 20");
    expect(bucketText(start, "day")).toBe("2026-11-20 (UTC)");
  });
});

describe("what is drawn", () => {
  it("is a point where a value has gaps on both sides", () => {
    expect(lonely([1, null, 2, 3, null, null, 4])).toEqual([0, 6]);
    expect(lonely([])).toEqual([]);
  });

  it("is bars from the highest sum down", () => {
    const line = (id: string, values: (number | null)[]) => ({ id, label: id, colour: 1, values });
    const plot = { interval: "hour", starts: [0, 3_600_000], short: String } as const;
    const series = [line("a", [1, null]), line("b", [2, 5])];
    expect(dataOf({ ...plot, starts: [...plot.starts], series, isSum: true })).toEqual([
      [1800, 5400],
      [3, 5],
      [1, 0],
    ]);
    expect(dataOf({ ...plot, starts: [...plot.starts], series, isSum: false })).toEqual([
      [1800, 5400],
      [1, null],
      [2, 5],
    ]);
  });
});
