import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { randomId } from "../parts/random-id";
import { draft, draftText, violations } from "./start-input";

describe("the draft of an input", () => {
  it("has each property by its type, or as the schema says by example", () => {
    const schema = {
      type: "object",
      properties: {
        name: { type: "string" },
        count: { type: "integer", minimum: 1 },
        mode: { enum: ["fast", "slow"] },
        nested: { properties: { on: { type: "boolean", default: true }, list: { type: ["array", "null"] } } },
        other: { $ref: "#/$defs/place" },
        any: {},
      },
      $defs: { place: { type: "object", properties: { city: { const: "Brasov" } } } },
    };
    expect(draft(schema)).toEqual({
      name: "",
      count: 1,
      mode: "fast",
      nested: { on: true, list: [] },
      other: { city: "Brasov" },
      any: null,
    });
  });

  it("ends where a schema holds itself", () => {
    const schema = { type: "object", properties: { next: { $ref: "#" } } };
    expect(draftText(schema)).toContain('"next": {}');
    expect(draft({ $ref: "#" })).toBeNull();
    expect(draft({ $ref: "#/constructor" })).toBeNull();
  });

  it("is an object for any schema", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (schema) => {
        expect(draftText(schema)).toMatch(/^\{/);
      }),
    );
  });
});

describe("a start", () => {
  it("has a key of its own", () => {
    expect(randomId()).not.toBe(randomId());
    expect(randomId().length).toBeGreaterThanOrEqual(32);
  });

  it("that does not conform says where, whatever the answer looks like", () => {
    expect(violations({ violations: [{ path: "/a", message: "no" }, 5] })).toEqual([{ path: "/a", message: "no" }]);
    expect([null, "x", {}, { violations: {} }].flatMap(violations)).toEqual([]);
  });
});
