/** Stalled partitions of the log, from what every process reports. Pure. */

import { count, duration } from "../format";
import type { PipelineProcess, StalledPartition } from "./pipeline-shape";

/** The stalled partitions, by number. Several processes may report one without an owner: the longest report counts. */
export function stalledPartitions(processes: PipelineProcess[]): StalledPartition[] {
  const longest = new Map<number, StalledPartition>();
  for (const stalled of processes.flatMap((one) => one.stalled_partitions)) {
    const known = longest.get(stalled.partition);
    if (!known || stalled.seconds > known.seconds) longest.set(stalled.partition, stalled);
  }
  return [...longest.values()].sort((a, b) => a.partition - b.partition);
}

/** One line about a stalled partition. */
export function stalledText({ partition, committed, lag_records, seconds, owner, state }: StalledPartition): string {
  const waiting = `${count(lag_records)} ${lag_records === 1 ? "record waits" : "records wait"}`;
  const since = `nothing committed for ${duration(seconds)}`;
  return `Partition ${partition}: ${waiting} above offset ${count(committed)}, ${since}; ${owner ?? "no owner"}, ${state}`;
}
