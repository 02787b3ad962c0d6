import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fromField, milliseconds, moment, toField } from "./local-time";

describe("times in fields", () => {
  it("come back to the second", () => {
    const seconds = fc.integer({ min: 946_684_800, max: 4_102_444_800 });
    fc.assert(
      fc.property(seconds, (second) => {
        const iso = new Date(second * 1000).toISOString();
        expect(fromField(toField(iso))).toBe(iso);
      }),
    );
  });

  it("are read in every form the server knows", () => {
    expect(moment("1763719200000")?.toISOString()).toBe("2025-11-21T10:00:00.000Z");
    expect(moment("2026-11-21T10:00:00+02:00")?.toISOString()).toBe("2026-11-21T08:00:00.000Z");
  });

  it("mean the last moment of a date where they are an end", () => {
    expect(milliseconds("2026-11-21")).toBe(Date.UTC(2026, 10, 21));
    expect(milliseconds("2026-11-21", true)).toBe(Date.UTC(2026, 10, 22) - 1);
    expect(milliseconds("2026-11-21T10:00:00Z", true)).toBe(Date.UTC(2026, 10, 21, 10));
    expect(milliseconds("soon", true)).toBeUndefined();
  });

  it("are empty where there is none", () => {
    expect(toField(undefined)).toBe("");
    expect(toField("yesterday")).toBe("");
    expect(fromField("")).toBeUndefined();
    expect(fromField("2026-13-45T99:00")).toBeUndefined();
  });
});
