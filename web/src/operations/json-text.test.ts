import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { exact, JsonFault, lineOf, nodeAt, placeOf, pointerSteps, readJson, wordedSteps } from "./json-text";

/** What the platform makes of a text, with numbers as texts. */
function parsed(text: string): unknown {
  return JSON.parse(text, (_, value) => (typeof value === "number" ? JSON.stringify(value) : value));
}
const noted = fc.jsonValue({ noUnicodeString: false }).filter((value) => !JSON.stringify(value).includes("__proto__"));

describe("JSON that is read with its places", () => {
  it("means what it means elsewhere", () => {
    fc.assert(
      fc.property(noted, fc.constantFrom(undefined, 2), (value, blanks) => {
        const text = JSON.stringify(value, null, blanks);
        expect(exact(readJson(text))).toEqual(parsed(text));
      }),
    );
  });

  it("is refused where it is refused elsewhere", () => {
    fc.assert(
      fc.property(
        noted,
        fc.nat(),
        fc.constantFrom("", ",", '"', "}", "]", "0", "\n", "\\", "-"),
        (value, where, put) => {
          const text = JSON.stringify(value);
          const at = where % (text.length + 1);
          const changed = text.slice(0, at) + put + text.slice(at + 1);
          let isGood = true;
          try {
            JSON.parse(changed);
          } catch {
            isGood = false;
          }
          if (isGood) readJson(changed);
          else expect(() => readJson(changed)).toThrow(JsonFault);
        },
      ),
      { numRuns: 500 },
    );
  });

  it("keeps every digit", () => {
    const text = '{"price": 0.000000123456789012345678, "big": [12345678901234567890]}';
    expect(exact(readJson(text))).toEqual({ price: "0.000000123456789012345678", big: ["12345678901234567890"] });
  });

  it("says where it ends to be JSON, and is not tired by depth", () => {
    const text = '{\n  "a": 1,\n  b: 2\n}';
    try {
      readJson(text);
      expect.unreachable();
    } catch (fault) {
      expect(lineOf(text, (fault as JsonFault).at)).toEqual({ line: 3, column: 3 });
    }
    expect(() => readJson("[".repeat(100_000))).toThrow(JsonFault);
  });

  it("finds what a path means, or what is around it", () => {
    const text = '{"a/b": [{"x": 1}, {"x": 22}], "c": null}';
    const whole = readJson(text);
    const found = (path: string[]) => {
      const node = nodeAt(whole, path);
      return text.slice(node.at, node.end);
    };
    expect(found(pointerSteps("/a~1b/1/x"))).toBe("22");
    expect(found(["a/b", "7"])).toBe('[{"x": 1}, {"x": 22}]');
    expect(found([])).toBe(text);
  });
});

describe("places that a server names", () => {
  it("are paths", () => {
    expect(wordedSteps("`processes[1].name` has to be text")).toEqual(["processes", "1", "name"]);
    expect(wordedSteps("processes[0].schema: value is not valid at /type")).toEqual([
      "processes",
      "0",
      "schema",
      "type",
    ]);
    expect(wordedSteps("`status` has to be text")).toEqual(["status"]);
    expect(wordedSteps("the body does not fit")).toEqual([]);
  });

  it("are lines and columns", () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom("a", "\n") }), fc.nat(), (text, where) => {
        const at = where % (text.length + 1);
        const { line, column } = lineOf(text, at);
        expect(placeOf(text, line, column)).toBe(at);
      }),
    );
  });
});
