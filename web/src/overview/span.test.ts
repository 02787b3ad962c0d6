import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  before,
  bucketCount,
  bucketStarts,
  intervalFor,
  isPossible,
  LENGTH,
  lengthText,
  MOST,
  type Span,
  snapped,
  spanOf,
} from "./span";

const NOW = Date.parse("2026-11-21T10:30:00.000Z");
const { hour: HOUR, day: DAY } = LENGTH;
const spans: fc.Arbitrary<Span> = fc
  .tuple(fc.integer({ min: 0, max: NOW }), fc.integer({ min: 0, max: 40 * DAY }))
  .map(([from, length]) => ({ from, to: from + length }));
const intervals = fc.constantFrom("hour" as const, "day" as const);

describe("the span of a question", () => {
  it("is that of the server: 30 days to now, or to `to`", () => {
    expect(spanOf({}, NOW)).toEqual({ from: NOW - 30 * DAY, to: NOW });
    expect(spanOf({ to: "2026-11-20" }, NOW).to).toBe(Date.parse("2026-11-21T00:00:00Z") - 1);
    expect(spanOf({ from: "2026-11-20", to: "soon" }, NOW)).toEqual({ from: Date.UTC(2026, 10, 20), to: NOW });
  });

  it("has an equally long one right before it", () => {
    fc.assert(
      fc.property(spans, (span) => {
        const earlier = before(span);
        expect(earlier.to).toBe(span.from - 1);
        expect(earlier.to - earlier.from).toBe(span.to - span.from);
      }),
    );
  });

  it("is said in words", () => {
    expect(lengthText({ from: 0, to: HOUR })).toBe("60 minutes");
    expect(lengthText({ from: 0, to: DAY })).toBe("24 hours");
    expect(lengthText({ from: 0, to: 7 * DAY - 1 })).toBe("7 days");
  });
});

describe("the interval", () => {
  it("is an hour below three days, and what was chosen where it is possible", () => {
    expect(intervalFor({ from: NOW - DAY, to: NOW }, null)).toBe("hour");
    expect(intervalFor({ from: NOW - 7 * DAY, to: NOW }, "minute")).toBe("day");
    expect(intervalFor({ from: NOW - 7 * DAY, to: NOW }, "hour")).toBe("hour");
    expect(intervalFor({ from: NOW - DAY, to: NOW }, "day")).toBe("day");
    expect(intervalFor({ from: NOW - 60 * DAY, to: NOW }, "hour")).toBe("day");
    expect(intervalFor({ from: NOW - 2000 * DAY, to: NOW }, "hour")).toBeUndefined();
  });

  it("never asks for more buckets than the server gives", () => {
    expect(isPossible({ from: 0, to: MOST * DAY - 1 }, "day")).toBe(true);
    expect(isPossible({ from: 0, to: MOST * DAY }, "day")).toBe(false);
  });
});

describe("buckets", () => {
  it("cover the span without a gap, and no more than it", () => {
    fc.assert(
      fc.property(spans, intervals, (span, interval) => {
        const starts = bucketStarts(span, interval);
        const length = LENGTH[interval];
        expect(starts).toHaveLength(Math.min(MOST, bucketCount(span, interval)));
        expect(starts[0]).toBeLessThanOrEqual(span.from);
        expect(span.from - (starts[0] ?? 0)).toBeLessThan(length);
        starts.forEach((start, index) => {
          expect(start).toBe((starts[0] ?? 0) + index * length);
        });
        if (starts.length < MOST) expect((starts.at(-1) ?? 0) + length).toBeGreaterThan(span.to);
      }),
    );
  });

  it("are chosen whole by dragging, inside of what is shown", () => {
    const shown = { from: 5 * HOUR + 1000, to: 20 * HOUR };
    expect(snapped({ from: 7.5 * HOUR, to: 9.2 * HOUR }, "hour", shown)).toEqual({ from: 7 * HOUR, to: 10 * HOUR - 1 });
    expect(snapped({ from: 0, to: 30 * HOUR }, "hour", shown)).toEqual(shown);
    expect(snapped({ from: 7.1 * HOUR, to: 7.1 * HOUR }, "hour", shown)).toEqual({ from: 7 * HOUR, to: 8 * HOUR - 1 });
  });
});
