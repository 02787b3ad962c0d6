import { describe, expect, it } from "vitest";
import type { PipelineProcess, StalledPartition } from "./pipeline-shape";
import { stalledPartitions, stalledText } from "./pipeline-stalls";

function stalled(partition: number, seconds: number, owner: string | null = null): StalledPartition {
  return { partition, committed: 1_204, lag_records: 7, seconds, owner, state: "Stable" };
}
function process(stalled_partitions: StalledPartition[]): PipelineProcess {
  return {
    process: "a",
    role: "processor",
    version: "0.1.0",
    endpoint: "http://a",
    ready: true,
    missing: [],
    silent_ms: 0,
    accepted_events: null,
    stored_events: 0,
    dead_lettered_events: 0,
    rejected_events: null,
    stalled_partitions,
  };
}

describe("stalled partitions", () => {
  it("are listed once each, by number, with the longest report", () => {
    const processes = [process([stalled(12, 61), stalled(3, 70)]), process([]), process([stalled(12, 332)])];
    expect(stalledPartitions(processes)).toEqual([stalled(3, 70), stalled(12, 332)]);
    expect(stalledPartitions([process([])])).toEqual([]);
  });

  it("name what waits, since when, and the owner", () => {
    expect(stalledText(stalled(12, 332))).toBe(
      "Partition 12: 7 records wait above offset 1,204, nothing committed for 5 min 32 s; no owner, Stable",
    );
    const one = { ...stalled(3, 61, "worker 0 here"), lag_records: 1, state: "committing" };
    expect(stalledText(one)).toBe(
      "Partition 3: 1 record waits above offset 1,204, nothing committed for 1 min 1 s; worker 0 here, committing",
    );
  });
});
