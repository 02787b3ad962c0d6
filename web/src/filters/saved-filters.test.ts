import { describe, expect, it } from "vitest";
import { readSaved, renamed, without, withSaved } from "./saved-filters";

const two = [
  { name: "errors", address: "status=error" },
  { name: "slow", address: "min_latency_s=5" },
];

describe("saved filters", () => {
  it("have one of each name, in order", () => {
    expect(withSaved(two, { name: " slow ", address: "x=1" })).toEqual([two[0], { name: "slow", address: "x=1" }]);
    expect(withSaved(two, { name: "  ", address: "x=1" })).toEqual(two);
    expect(withSaved(two, { name: "a".repeat(500), address: "" })[0]?.name).toHaveLength(80);
  });

  it("are renamed and removed", () => {
    expect(renamed(two, "errors", "wrong")).toEqual([two[1], { name: "wrong", address: "status=error" }]);
    expect(renamed(two, "errors", "")).toEqual(two);
    expect(without(two, "slow")).toEqual([two[0]]);
  });

  it("are none where something else is stored", () => {
    for (const text of [null, "", "{", "{}", "[1]", '[{"name":1,"address":"x"}]']) expect(readSaved(text)).toEqual([]);
    expect(readSaved(JSON.stringify(two))).toEqual(two);
  });
});
