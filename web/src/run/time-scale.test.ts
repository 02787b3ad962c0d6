import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Span } from "./span-tree";
import { barOf, offsetLabel, stepOf, stretchOf, ticksOf, zoomOf } from "./time-scale";

const ORIGIN = Date.parse("2026-11-21T10:00:00.000Z");
const span = (start: number, end: number | null, more: Partial<Span> = {}) =>
  ({
    run_id: "s",
    started_at: new Date(ORIGIN + start).toISOString(),
    ended_at: end === null ? null : new Date(ORIGIN + end).toISOString(),
    status: end === null ? "started" : "success",
    stale: false,
    ...more,
  }) as Span;
const spans = fc
  .tuple(fc.nat(100_000), fc.option(fc.integer({ min: -50, max: 100_000 })))
  .map(([start, length]) => span(start, length === null ? null : start + length));

describe("bars", () => {
  it("lie on the axis, whatever the clocks said", () => {
    fc.assert(
      fc.property(fc.array(spans, { minLength: 1, maxLength: 20 }), fc.nat(), (list, chosen) => {
        const whole = stretchOf(list, ORIGIN + 50_000);
        const one = list[chosen % list.length] as Span;
        for (const axis of [whole, zoomOf(one, whole)]) {
          expect(axis.to).toBeGreaterThan(axis.from);
          for (const each of list) {
            const bar = barOf(each, axis, whole);
            if (!bar) continue;
            expect(bar.left).toBeGreaterThanOrEqual(0);
            expect(bar.width).toBeGreaterThanOrEqual(0);
            expect(bar.left + bar.width).toBeLessThanOrEqual(100 + 1e-6);
          }
          expect(barOf(one, axis, whole)).toBeDefined();
        }
        for (const each of list) expect(barOf(each, whole, whole)).toBeDefined();
      }),
    );
  });

  it("of what has no end go on to the end, and say so", () => {
    const list = [span(0, 100), span(40, null)];
    const whole = stretchOf(list, ORIGIN + 200);
    expect(whole).toEqual({ from: ORIGIN, to: ORIGIN + 200 });
    expect(barOf(list[1] as Span, whole, whole)).toEqual({
      left: 20,
      width: 80,
      isOpen: true,
      cutLeft: false,
      cutRight: false,
    });
    const below = [span(0, 100, { run_id: "top" }), span(40, null, { parent_run_id: "top" })];
    expect(stretchOf(below, ORIGIN + 10_000).to).toBe(ORIGIN + 100);
    const stale = [span(0, 100), span(40, null, { stale: true })];
    expect(stretchOf(stale, ORIGIN + 10_000_000).to).toBe(ORIGIN + 100);
    expect(barOf(span(0, 10), { from: ORIGIN + 20, to: ORIGIN + 30 }, whole)).toBeUndefined();
  });

  it("of no time at all have an axis still", () => {
    expect(stretchOf([span(0, 0)], 0)).toEqual({ from: ORIGIN, to: ORIGIN + 1 });
    expect(stretchOf([], 5)).toEqual({ from: 5, to: 6 });
  });
});

describe("ticks", () => {
  it("are round, few and on the axis", () => {
    fc.assert(
      fc.property(fc.double({ min: 1, max: 1e10, noNaN: true }), fc.integer({ min: 1, max: 20 }), (size, count) => {
        expect(size / stepOf(size, count)).toBeLessThanOrEqual(count * (1 + 1e-6));
        const ticks = ticksOf({ from: ORIGIN, to: ORIGIN + size }, ORIGIN, count);
        expect(ticks.length).toBeGreaterThan(0);
        expect(ticks.length).toBeLessThanOrEqual(count + 2);
        for (const tick of ticks) {
          expect(tick.at).toBeGreaterThanOrEqual(-1e-6);
          expect(tick.at).toBeLessThanOrEqual(100.001);
        }
        expect(new Set(ticks.map((tick) => tick.label)).size).toBe(ticks.length);
      }),
    );
  });

  it("read as times after the beginning", () => {
    expect(ticksOf({ from: ORIGIN, to: ORIGIN + 1_000 }, ORIGIN, 5).map((tick) => tick.label)).toEqual([
      "0",
      "200 ms",
      "400 ms",
      "600 ms",
      "800 ms",
      "1.0 s",
    ]);
    expect(offsetLabel(1_500, 500)).toBe("1.5 s");
    expect(offsetLabel(-20, 10)).toBe("-20 ms");
    expect(offsetLabel(90_000, 30_000)).toBe("1:30");
    expect(offsetLabel(600_000, 300_000)).toBe("10 min");
    expect(offsetLabel(5_400_000, 1_800_000)).toBe("1:30 h");
  });
});
