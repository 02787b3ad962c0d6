import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readColumns, writeColumns } from "./column-names";

const ALL = ["a", "b", "c", "d"];
const USUAL = ["a", "b"];

describe("columns in an address", () => {
  it("come back as they were written, in their own order", () => {
    fc.assert(
      fc.property(fc.subarray(ALL, { minLength: 1 }), (shown) => {
        expect(readColumns(writeColumns(shown, USUAL) ?? null, ALL, USUAL)).toEqual(shown);
      }),
    );
  });

  it("are the usual ones where the address names none that there are", () => {
    expect(readColumns(null, ALL, USUAL)).toEqual(USUAL);
    expect(readColumns("", ALL, USUAL)).toEqual(USUAL);
    expect(readColumns("x,y", ALL, USUAL)).toEqual(USUAL);
    expect(readColumns("x,d,c", ALL, USUAL)).toEqual(["c", "d"]);
    expect(writeColumns([], USUAL)).toBeUndefined();
  });
});
