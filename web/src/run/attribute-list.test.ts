import { describe, expect, it } from "vitest";
import { parseExact } from "../payload/exact-json";
import { attributesOf, filterByAttribute, matching } from "./attribute-list";

const run = {
  metadata: { "http.url": "https://example.com/a", "http.status": 200, nested: { a: [1, 2] } },
  fields: { shard: "eu-1" },
};

describe("attributes of a span", () => {
  it("are its metadata and then other fields, by name", () => {
    expect(attributesOf(run).map(({ name, isMetadata }) => [name, isMetadata])).toEqual([
      ["http.status", true],
      ["http.url", true],
      ["nested", true],
      ["shard", false],
    ]);
  });

  it("can be filtered by where the server keeps them: the first 64 names of metadata", () => {
    const metadata = Object.fromEntries(Array.from({ length: 70 }, (_, n) => [`key-${String(n).padStart(2, "0")}`, n]));
    const listed = attributesOf({ metadata, fields: { shard: "eu" } });
    expect(listed.filter(({ canFilter }) => canFilter).map(({ value }) => value)).toEqual(
      Array.from({ length: 64 }, (_, n) => n),
    );
  });

  it("are found by a part of the name or the value, in any case", () => {
    const names = (text: string) => matching(attributesOf(run), text).map(({ name }) => name);
    expect(names("HTTP")).toEqual(["http.status", "http.url"]);
    expect(names(" eu-1 ")).toEqual(["shard"]);
    expect(names('"a"')).toEqual(["nested"]);
    expect(names("nothing")).toEqual([]);
    expect(names("")).toHaveLength(4);
  });

  it("lead to the runs with the same value, where a filter can say it", () => {
    expect(filterByAttribute("http.url", "https://example.com/?a=1&b", "shop")).toBe(
      "/runs?project_id=shop&metadata.http.url=https%3A%2F%2Fexample.com%2F%3Fa%3D1%26b",
    );
    expect(filterByAttribute("http.status", 200, undefined)).toBe("/runs?metadata.http.status=200");
    const exact = parseExact('{"id": 12345678901234567890, "price": 1.50}') as Record<string, unknown>;
    expect(filterByAttribute("id", exact.id, undefined)).toBe("/runs?metadata.id=12345678901234567890");
    for (const value of [{}, [], null, "", "x".repeat(513), "字".repeat(180), 1.5]) {
      expect(filterByAttribute("name", value, undefined)).toBeUndefined();
    }
  });
});
