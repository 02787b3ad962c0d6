import fc from "fast-check";
import { expect, test } from "vitest";
import { BOUNDS, snapshot } from "../src/snapshot.js";

const copy = (value: unknown) => snapshot(value).value;

test("what is JSON already comes out as it is, and shares nothing with it", () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 5 }), (generated) => {
      const text = JSON.stringify(generated);
      const value = JSON.parse(text);
      const taken = copy(value);
      wreck(value);
      expect(JSON.stringify(taken)).toBe(text);
    }),
  );
});

/** Changes every object and list inside of a value. */
function wreck(value: unknown) {
  if (typeof value !== "object" || value === null) return;
  for (const inner of Object.values(value)) wreck(inner);
  if (Array.isArray(value)) value.push("wrecked");
  else (value as Record<string, unknown>).wrecked = true;
}

test("anything at all becomes JSON within the bounds, without throwing", () => {
  const bounds = { depth: 4, items: 5, nodes: 40, chars: 60 };
  const anything = fc.anything({
    withBigInt: true,
    withBoxedValues: true,
    withDate: true,
    withMap: true,
    withNullPrototype: true,
    withObjectString: true,
    withSet: true,
    withSparseArray: true,
    withTypedArray: true,
    maxDepth: 8,
  });
  fc.assert(
    fc.property(anything, (value) => {
      const { value: taken, bytes } = snapshot(value, bounds);
      const text = JSON.stringify({ taken });
      // Every node may carry one notice of a cut beside its own text.
      expect(text.length).toBeLessThan(bounds.chars * 6 + bounds.nodes * 80);
      expect(bytes).toBeLessThanOrEqual(bounds.nodes * 24 + bounds.chars);
      expect(depthOf(taken)).toBeLessThanOrEqual(bounds.depth + 1);
    }),
  );
});

function depthOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

test("later changes do not show", () => {
  const messages = [{ role: "user", content: ["a"] }];
  const taken = copy(messages);
  messages[0]?.content.push("b");
  messages.push({ role: "assistant", content: [] });
  expect(taken).toEqual([{ role: "user", content: ["a"] }]);
});

test("what JSON has no word for becomes a word", () => {
  const cycle: Record<string, unknown> = { name: "a" };
  cycle.self = cycle;
  expect(copy(cycle)).toEqual({ name: "a", self: "[cycle]" });
  expect(copy(12345678901234567890n)).toBe("12345678901234567890");
  expect(copy([Number.NaN, Number.POSITIVE_INFINITY, undefined])).toEqual(["NaN", "Infinity", null]);
  expect(copy({ gone: undefined, fn: function named() {}, sym: Symbol("s") })).toEqual({
    fn: "[function named]",
    sym: "Symbol(s)",
  });
  expect(copy(new Date(0))).toBe("1970-01-01T00:00:00.000Z");
  expect(copy(new Date(Number.NaN))).toBe("[invalid date]");
  expect(copy(new Map([["a", new Set([1, 2])]]))).toEqual({ a: [1, 2] });
  expect(copy(new Map([[{ id: 1 }, 2]]))).toEqual([[{ id: 1 }, 2]]);
  expect(copy(new Uint8Array(3))).toBe("[Uint8Array: 3 bytes]");
  expect(copy(new ArrayBuffer(4))).toBe("[ArrayBuffer: 4 bytes]");
  expect(copy(/a+/g)).toBe("/a+/g");
  expect(copy(new URL("http://host/path"))).toBe("http://host/path");
  expect(copy(Promise.resolve(1))).toBe("[object Promise]");
  expect(copy(new WeakMap())).toBe("[object WeakMap]");
});

test("instances show their fields, errors their name, message, stack, cause and fields", () => {
  class City {
    readonly name = "Paris";
    #secret = 1;
    get secret() {
      return this.#secret;
    }
  }
  expect(copy(new City())).toEqual({ name: "Paris" });
  const error = Object.assign(new TypeError("no", { cause: new Error("why") }), { code: "E1" });
  expect(copy(error)).toMatchObject({ name: "TypeError", message: "no", code: "E1", cause: { message: "why" } });
  expect((copy(error) as { stack: string }).stack).toContain("TypeError: no");
});

test("what throws while it is read is named, and the rest is there", () => {
  const value = {
    ok: 1,
    get bad(): never {
      throw new Error("not today");
    },
    json: {
      toJSON() {
        throw new Error("nor this");
      },
    },
    proxy: new Proxy(
      {},
      {
        ownKeys() {
          throw new Error("no keys");
        },
      },
    ),
  };
  expect(copy(value)).toEqual({
    ok: 1,
    bad: "[unreadable: not today]",
    json: "[unreadable: nor this]",
    proxy: "[unreadable: no keys]",
  });
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  expect(copy({ proxy })).toEqual({ proxy: expect.stringContaining("unreadable") });
});

test("a field named __proto__ is a field like another", () => {
  const taken = copy(JSON.parse('{"__proto__": {"a": 1}}'));
  expect(JSON.stringify(taken)).toBe('{"__proto__":{"a":1}}');
  expect(Object.getPrototypeOf(taken)).toBe(Object.prototype);
});

test("what is too large is cut and says so", () => {
  const deep = JSON.parse(`${"[".repeat(100)}${"]".repeat(100)}`);
  expect(JSON.stringify(copy(deep))).toContain("[cut: too deep]");
  expect(copy("x".repeat(BOUNDS.chars + 5))).toBe(`${"x".repeat(BOUNDS.chars)} [cut: 5 more characters]`);
  expect((copy(Array.from({ length: 5_000 }, () => 1)) as unknown[]).at(-1)).toBe("[cut: 4000 more items]");
  const wide = Object.fromEntries(Array.from({ length: 1_500 }, (_, at) => [`k${at}`, at]));
  expect((copy(wide) as Record<string, unknown>)["[cut]"]).toBe("500 more fields");
  const many = Array.from({ length: 900 }, () => Array.from({ length: 900 }, () => 1));
  expect(JSON.stringify(copy(many)).length).toBeLessThan(100_000);
});

test("an endless iterable is not followed", () => {
  class Endless extends Map<string, number> {
    override *[Symbol.iterator](): MapIterator<[string, number]> {
      for (let at = 0; ; at++) yield [`k${at}`, at];
    }
  }
  expect(Object.keys(copy(new Endless([["k", 1]])) as object).length).toBeLessThanOrEqual(BOUNDS.items + 1);
});
