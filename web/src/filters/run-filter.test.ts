import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { apiQuery, isFiltered, type RunFilter, readFilter, readRange, SINGLE, writeFilter } from "./run-filter";

const text = fc.string({ minLength: 1, maxLength: 20, unit: "grapheme" });
const filters: fc.Arbitrary<RunFilter> = fc.record(
  {
    ...Object.fromEntries(SINGLE.map((name) => [name, text])),
    tags: fc.uniqueArray(text, { minLength: 1, maxLength: 4 }),
    tags_all: fc.uniqueArray(text, { minLength: 1, maxLength: 4 }),
    metadata: fc.dictionary(
      text.filter((key) => key !== "__proto__"),
      text,
      { minKeys: 1, maxKeys: 3, noNullPrototype: true },
    ),
  },
  { requiredKeys: [], noNullPrototype: true },
);

describe("the filter in an address", () => {
  it("comes back as it was written", () => {
    fc.assert(
      fc.property(filters, (filter) => {
        const address = writeFilter(filter).toString();
        expect(readFilter(new URLSearchParams(address))).toEqual(filter);
      }),
    );
  });

  it("leaves alone what else is in the address", () => {
    const before = new URLSearchParams("sort=-latency_s&status=error&metadata.env=dev&range=24h");
    expect(writeFilter({ model: "m" }, before).toString()).toBe("sort=-latency_s&range=24h&model=m");
  });

  it("takes no empty values and no unknown ranges", () => {
    const params = new URLSearchParams("status=&tags=&metadata.=x&range=constructor");
    expect(readFilter(params)).toEqual({});
    expect(readRange(params)).toBeUndefined();
    expect(isFiltered({ project_id: "p" })).toBe(false);
    expect(isFiltered({ project_id: "p", q: "x" })).toBe(true);
  });
});

describe("the question to the server", () => {
  it("has a range as the minute it begins in, unless a time is given", () => {
    const now = Date.parse("2026-11-21T10:00:30.000Z");
    expect(apiQuery({}, "1h", now)).toEqual({ from: "2026-11-21T09:00:00.000Z" });
    expect(apiQuery({ from: "2026-11-01" }, "1h", now)).toEqual({ from: "2026-11-01" });
    expect(apiQuery({ metadata: { env: "dev" }, tags: ["a,b"] }, undefined, now)).toEqual({
      "metadata.env": "dev",
      tags: ["a,b"],
    });
  });
});
