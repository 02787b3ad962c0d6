import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { entriesOf, openAtFirst, pathTo, piecesOf, STEP_CHARS, textOf, utf8Bytes } from "./fold";

describe("pieces of a text", () => {
  it("are together the text, and none cuts a character in two", () => {
    const text = fc.string({ unit: "binary", maxLength: 300 });
    fc.assert(
      fc.property(text, fc.integer({ min: 1, max: 40 }), (whole, first) => {
        const pieces = piecesOf(whole, first, 1_000);
        expect(pieces.join("")).toBe(whole);
        expect(pieces.some((piece) => /\p{Surrogate}/u.test(piece))).toBe(false);
      }),
    );
  });

  it("are as many as were asked for, and end at a line where one is near", () => {
    const text = `${"a".repeat(90)}\n${"b".repeat(3 * STEP_CHARS)}`;
    expect(piecesOf(text, 100, 1)).toEqual([`${"a".repeat(90)}\n`]);
    expect(piecesOf(text, 100, 3).map((piece) => piece.length)).toEqual([91, STEP_CHARS, STEP_CHARS]);
    expect(piecesOf("", 100, 3)).toEqual([]);
  });

  it("are not short because a line ended long before", () => {
    const text = `${"a".repeat(13)}\n${"b".repeat(577_802)}`;
    expect(piecesOf(text, 300, 1)[0]).toHaveLength(300);
  });

  it("of a megabyte are cut at once", () => {
    const text = "x".repeat(1_048_576);
    const began = performance.now();
    expect(piecesOf(text, 4_000, 1)[0]).toHaveLength(4_000);
    expect(utf8Bytes(text)).toBe(1_048_576);
    expect(performance.now() - began).toBeLessThan(200);
  });
});

describe("the size of a text", () => {
  it("is that of its UTF-8", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        expect(utf8Bytes(text)).toBe(new TextEncoder().encode(text).length);
      }),
    );
    expect(utf8Bytes("\ud800x")).toBe(4);
  });
});

describe("a tree of JSON", () => {
  it("opens from the outside in, and no more than some lines", () => {
    expect([...openAtFirst({ a: { b: { c: 1 } } })]).toEqual(["", "/a", "/a/b"]);
    const wide = { many: Array.from({ length: 5_000 }, (_, index) => index), few: { x: 1 } };
    const open = openAtFirst(wide);
    expect(open.has("")).toBe(true);
    expect(open.has("/many")).toBe(true);
    expect([...openAtFirst(wide, 8)]).toEqual(["", "/few"]);
    fc.assert(
      fc.property(fc.jsonValue(), fc.integer({ min: 1, max: 60 }), (value, lines) => {
        const paths = openAtFirst(value, lines);
        expect(paths.size).toBeLessThanOrEqual(Math.max(1, lines));
      }),
    );
  });

  it("tells entries apart whose keys hold slashes", () => {
    expect(pathTo(pathTo("", "a"), "b")).not.toBe(pathTo("", "a/b"));
    expect(entriesOf(JSON.parse('{"__proto__": 1}'))).toEqual([["__proto__", 1]]);
  });

  it("too deep to be written says so", () => {
    let deep: unknown = 1;
    for (let level = 0; level < 50_000; level += 1) deep = [deep];
    expect(textOf(deep)).toContain("too deeply");
    expect(textOf({ a: 1 })).toBe('{\n  "a": 1\n}');
  });
});
