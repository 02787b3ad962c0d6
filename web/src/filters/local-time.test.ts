import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import { boundOf, fieldOf, fromField, milliseconds, moment } from "./local-time";

describe("times in fields", () => {
  it("come back to the second", () => {
    const seconds = fc.integer({ min: 946_684_800, max: 4_102_444_800 });
    fc.assert(
      fc.property(seconds, (second) => {
        const iso = new Date(second * 1000).toISOString();
        expect(fromField(fieldOf(milliseconds(iso)))).toBe(iso);
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
    expect(fieldOf(milliseconds(undefined))).toBe("");
    expect(fieldOf(milliseconds("yesterday"))).toBe("");
    expect(fromField("")).toBeUndefined();
    expect(fromField("2026-13-45T99:00")).toBeUndefined();
  });
});

describe("the bound of a field", () => {
  const zone = process.env.TZ;
  afterEach(() => {
    process.env.TZ = zone;
  });

  it("is what it was where the field was not changed, wherever clocks are put back", () => {
    process.env.TZ = "Europe/Berlin";
    const second = Date.UTC(2026, 9, 25, 1, 30, 0, 250);
    expect(fieldOf(second)).toBe("2026-10-25T02:30:00");
    expect(fieldOf(second - 3_600_000)).toBe("2026-10-25T02:30:00");
    for (const ms of [second, second - 3_600_000]) {
      expect(boundOf(fieldOf(ms), ms)).toBe(new Date(ms).toISOString());
      expect(boundOf(fieldOf(ms), ms, true)).toBe(new Date(ms).toISOString());
    }
  });

  it("holds its last second whole where it is an end", () => {
    expect(boundOf("2026-11-21T10:00:00", undefined)).toBe("2026-11-21T10:00:00.000Z");
    expect(boundOf("2026-11-21T10:00:00", undefined, true)).toBe("2026-11-21T10:00:00.999Z");
    expect(boundOf("2026-11-21T10:00:00", 0, true)).toBe("2026-11-21T10:00:00.999Z");
  });

  it("is open where the field is empty", () => {
    expect(boundOf("", undefined, true)).toBeUndefined();
    expect(boundOf("", Number.NaN)).toBeUndefined();
    expect(fieldOf(9e15)).toBe("");
    expect(fieldOf(undefined)).toBe("");
  });
});
