import { describe, expect, it } from "vitest";
import { mayLeave } from "./live-filter";

describe("a list that is live", () => {
  it("may be left by runs that end, grow or are judged", () => {
    expect(mayLeave({ status: "started" })).toBe(true);
    expect(mayLeave({ saved: "false", app_id: "a" })).toBe(true);
    expect(mayLeave({ feedback: "none" })).toBe(true);
    expect(mayLeave({ max_cost: "1" })).toBe(true);
  });

  it("keeps what was of its app or its time", () => {
    expect(mayLeave({})).toBe(false);
    expect(mayLeave({ app_id: "a", from: "2026-11-21T10:00:00Z", "metadata.env": "prod", tags: ["x"] })).toBe(false);
    expect(mayLeave({ min_latency_s: "1", sort: "-cost" })).toBe(false);
  });
});
