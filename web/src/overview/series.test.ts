import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MEASURES } from "./measures";
import { type Figures, groupLabel, prepare, type Report, stacked, sum, TOP } from "./series";
import { LENGTH } from "./span";

const HOUR = LENGTH.hour;
const FIRST = Date.parse("2026-11-20T00:00:00.000Z");
const HOURS = 24;
const SPAN = { from: FIRST, to: FIRST + HOURS * HOUR - 1 };

const figures: fc.Arbitrary<Figures> = fc
  .record({
    runs: fc.integer({ min: 1, max: 1000 }),
    calls: fc.nat(1000),
    prompt_tokens: fc.nat(100_000),
    completion_tokens: fc.nat(100_000),
    // Costs in thousandths, so that sums are exact enough to be compared.
    cost: fc.nat(1_000_000).map((cost) => cost / 1000),
    errors: fc.nat(1000),
  })
  .map((some) => ({
    ...some,
    errors: Math.min(some.errors, some.runs),
    total_tokens: some.prompt_tokens + some.completion_tokens,
    error_rate: Math.min(some.errors, some.runs) / some.runs,
    latency_p50_s: 1,
    latency_p95_s: 2,
  }));
const keys = fc.uniqueArray(fc.oneof(fc.string({ maxLength: 4 }), fc.constant(null)), { minLength: 1, maxLength: 14 });

/** A report as the server makes it: groups and the rest by bucket, and their sums. */
const reports: fc.Arbitrary<Report> = keys.chain((names) =>
  fc
    .tuple(
      fc.nat(names.length),
      fc.dictionary(
        fc.nat(HOURS - 1).map(String),
        fc.tuple(...names.map(() => fc.option(figures, { nil: undefined }))),
        { maxKeys: HOURS },
      ),
    )
    .map(([shown, byHour]) => {
      const series = Object.entries(byHour)
        .map(([hour, parts]) => ({ hour: Number(hour), parts }))
        .filter(({ parts }) => parts.some(Boolean))
        .sort((a, b) => a.hour - b.hour)
        .map(({ hour, parts }) => ({
          start: new Date(FIRST + hour * HOUR).toISOString(),
          totals: sum(parts),
          groups: parts
            .slice(0, shown)
            .flatMap((part, index) => (part ? [{ key: names[index] ?? null, ...part }] : [])),
          other: parts.slice(shown).some(Boolean) ? sum(parts.slice(shown)) : null,
        }));
      const all = Object.values(byHour);
      return {
        from: new Date(SPAN.from).toISOString(),
        to: new Date(SPAN.to).toISOString(),
        interval: "hour",
        group_by: "agent",
        totals: sum(all.flat()),
        groups: names.slice(0, shown).map((key, index) => ({ key, ...sum(all.map((parts) => parts[index])) })),
        other: all.some((parts) => parts.slice(shown).some(Boolean)) ? sum(all.flatMap((p) => p.slice(shown))) : null,
        series,
      } as Report;
    }),
);

describe("series of a report", () => {
  it("add up to its totals, by bucket and in all", () => {
    fc.assert(
      fc.property(reports, (report) => {
        const prepared = prepare(report, "agent", "hour", SPAN);
        expect(prepared.starts).toHaveLength(HOURS);
        for (const measure of MEASURES.filter(({ isSum }) => isSum)) {
          const values = prepared.groups.map((group) => group.figures.map(measure.value));
          const heights = stacked(values).at(-1) ?? prepared.starts.map(() => 0);
          heights.forEach((height, at) => {
            expect(height).toBeCloseTo(measure.value(prepared.all[at]) ?? 0, 6);
          });
          const whole = heights.reduce((all, height) => all + height, 0);
          expect(whole).toBeCloseTo(measure.value(report.totals) ?? 0, 4);
        }
      }),
    );
  });

  it("are the largest groups and one rest, told apart whatever they are called", () => {
    fc.assert(
      fc.property(reports, (report) => {
        const { groups } = prepare(report, "agent", "hour", SPAN);
        expect(groups.length).toBeLessThanOrEqual(TOP + 1);
        expect(new Set(groups.map((group) => group.id)).size).toBe(groups.length);
        for (const [at, group] of groups.entries()) expect(group.colour).toBe(group.id === "other" ? TOP + 1 : at + 1);
        for (const group of groups) expect(group.figures).toHaveLength(HOURS);
      }),
    );
  });

  it("have gaps where nothing is known, and nothing where nothing ran", () => {
    const report = {
      groups: [{ key: "a", ...sum([{ runs: 2, errors: 1, cost: 3 }]) }],
      other: null,
      series: [
        {
          start: new Date(FIRST + 2 * HOUR).toISOString(),
          totals: sum([{ runs: 2, errors: 1, cost: 3 }]),
          groups: [{ key: "a", ...sum([{ runs: 2, errors: 1, cost: 3 }]) }],
          other: null,
        },
      ],
    } as unknown as Report;
    const { groups } = prepare(report, "agent", "hour", { from: FIRST, to: FIRST + 4 * HOUR - 1 });
    const values = (id: string) => groups[0]?.figures.map(MEASURES.find((one) => one.id === id)?.value ?? (() => 0));
    expect(values("cost")).toEqual([0, 0, 3, 0]);
    expect(values("errors")).toEqual([null, null, 0.5, null]);
    expect(values("p95")).toEqual([null, null, null, null]);
  });

  it("go on to a bucket behind the span: a client's clock may run ahead", () => {
    const start = FIRST + 30 * HOUR;
    const report = {
      groups: [],
      series: [{ start: new Date(start).toISOString(), totals: sum([]), groups: [], other: null }],
    } as unknown as Report;
    expect(prepare(report, "agent", "hour", SPAN).starts.at(-1)).toBe(start);
  });

  it("have names that fit", () => {
    expect(groupLabel(null, "model")).toBe("(no model)");
    expect(groupLabel("x".repeat(5000), "user")).toHaveLength(201);
  });
});
