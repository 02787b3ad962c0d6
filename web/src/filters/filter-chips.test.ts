import { describe, expect, it } from "vitest";
import { filterChips } from "./filter-chips";
import type { RunFilter } from "./run-filter";

const filter: RunFilter = {
  project_id: "p",
  status: "error",
  root: "true",
  min_cost: "0.5",
  tags: ["a", "b,c"],
  tags_all: ["d"],
  metadata: { env: "prod", zone: "eu" },
};

describe("the pieces of a filter", () => {
  it("name what is in force, but not the project", () => {
    expect(filterChips(filter, "24h").map((chip) => `${chip.label}: ${chip.value}`)).toEqual([
      "Time: Last 24 hours",
      "Status: error",
      "Cost from: $0.5",
      "Level: roots only",
      "Any tag: a",
      "Any tag: b,c",
      "Every tag: d",
      "env: prod",
      "zone: eu",
    ]);
  });

  it("are taken away one by one until only the project is left", () => {
    let rest = filter;
    for (const chip of filterChips(filter)) {
      const before = filterChips(rest).length;
      rest = chip.without(rest);
      expect(filterChips(rest).length).toBe(before - 1);
    }
    expect(rest).toEqual({ project_id: "p" });
  });

  it("say no span of time where a start is given, and leave a day as it is", () => {
    const chips = filterChips({ from: "2026-11-01", to: "soon" }, "1h");
    expect(chips.map((chip) => chip.value)).toEqual(["2026-11-01", "soon"]);
  });
});
