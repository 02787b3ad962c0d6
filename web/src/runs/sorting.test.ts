import { describe, expect, it } from "vitest";
import { NEWEST, nextSort } from "./sorting";

describe("the order of runs", () => {
  it("turns round where the server can, and goes back to the newest first", () => {
    expect(nextSort(NEWEST, NEWEST)).toBe("started_at");
    expect(nextSort("started_at", NEWEST)).toBeUndefined();
    expect(nextSort(NEWEST, "-total_cost")).toBe("-total_cost");
    expect(nextSort("-total_cost", "-total_cost")).toBeUndefined();
    expect(nextSort("-total_cost", NEWEST)).toBeUndefined();
  });
});
