import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fromField, moment, toField } from "./local-time";

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

  it("are empty where there is none", () => {
    expect(toField(undefined)).toBe("");
    expect(toField("yesterday")).toBe("");
    expect(fromField("")).toBeUndefined();
    expect(fromField("2026-13-45T99:00")).toBeUndefined();
  });
});
