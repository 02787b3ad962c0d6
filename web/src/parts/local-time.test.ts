import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fieldOf, ofField, readTime } from "./local-time";

describe("a time in an address", () => {
  it("is read in every form the API takes", () => {
    expect(readTime("2026-11-21T10:00:00.000+02:00")).toBe(Date.UTC(2026, 10, 21, 8));
    expect(readTime("1700000000000")).toBe(1_700_000_000_000);
    expect(readTime("2026-11-21")).toBe(Date.UTC(2026, 10, 21));
    expect(readTime("2026-11-21", true)).toBe(Date.UTC(2026, 10, 22) - 1);
    expect(readTime("yesterday")).toBeUndefined();
    expect(readTime(undefined)).toBeUndefined();
  });
});

describe("a time in a field", () => {
  it("comes back as the first or the last moment of its minute", () => {
    // Years in which no zone changes its clock for summer twice over: an hour that comes twice has no single answer.
    fc.assert(
      fc.property(fc.integer({ min: Date.UTC(2026, 10, 10), max: Date.UTC(2027, 1, 1) }), (ms) => {
        const minute = Math.floor(ms / 60_000) * 60_000;
        expect(ofField(fieldOf(ms))).toBe(new Date(minute).toISOString());
        expect(ofField(fieldOf(ms), true)).toBe(new Date(minute + 59_999).toISOString());
      }),
    );
  });

  it("is empty where there is none", () => {
    expect(fieldOf(undefined)).toBe("");
    expect(fieldOf(Number.NaN)).toBe("");
    expect(ofField("")).toBeUndefined();
    expect(ofField("soon")).toBeUndefined();
  });
});
