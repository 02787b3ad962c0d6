/** Events in a second, from counters that start at zero with each process. Pure. */

import type { Pipeline, PipelineProcess } from "./pipeline-shape";

/** The counters. */
export const COUNTERS = ["accepted_events", "stored_events", "dead_lettered_events", "rejected_events"] as const;
/** One of them. */
export type Counter = (typeof COUNTERS)[number];
/** What happened between two looks: events in a second, null where no process counts. */
export type Rates = Record<Counter, number | null>;
/** A look at the pipeline, and the rates since the one before; none for the first. */
export type Sample = { atMs: number; lag: number | null; counts: Counts; rates: Rates | undefined };
type Counts = Map<string, Record<Counter, number | null>>;

/** How long looks are kept. */
export const KEPT_MS = 5 * 60_000;

function countsOf(processes: PipelineProcess[]): Counts {
  const counts: Counts = new Map();
  for (const one of processes) {
    // Two parts of one process would be one in the sum of both.
    const known = counts.get(one.process);
    const sum = (name: Counter) => {
      const [before, now] = [known?.[name] ?? null, one[name]];
      return before === null ? now : before + (now ?? 0);
    };
    const each = COUNTERS.map((name) => [name, sum(name)] as const);
    counts.set(one.process, Object.fromEntries(each) as Record<Counter, number | null>);
  }
  return counts;
}

/** What one counter gained. A process that was not there, or counts from zero again, is reset. */
function gained(before: Counts, after: Counts, name: Counter): number | null {
  let [sum, isCounted] = [0, false];
  for (const [process, counts] of after) {
    const now = counts[name];
    if (now === null) continue;
    isCounted = true;
    const was = before.get(process)?.[name] ?? null;
    if (was !== null && now >= was) sum += now - was;
  }
  return isCounted ? sum : null;
}

/** The looks with one more. One that is no newer than the last changes nothing; one that is older resets. */
export function withSample(samples: Sample[], seen: Pipeline): Sample[] {
  const atMs = Date.parse(seen.at);
  const last = samples.at(-1);
  const counts = countsOf(seen.processes);
  const lag = seen.log?.lag_records ?? null;
  if (!last || atMs < last.atMs) return [{ atMs, lag, counts, rates: undefined }];
  if (atMs === last.atMs) return samples;
  const seconds = (atMs - last.atMs) / 1000;
  const rate = (name: Counter) => {
    const gain = gained(last.counts, counts, name);
    return gain === null ? null : gain / seconds;
  };
  const rates = Object.fromEntries(COUNTERS.map((name) => [name, rate(name)])) as Rates;
  return [...samples.filter((sample) => atMs - sample.atMs <= KEPT_MS), { atMs, lag, counts, rates }];
}

/** A counter of all processes together; null where no process counts. */
export function total(processes: PipelineProcess[], name: Counter): number | null {
  const counted = processes.map((one) => one[name]).filter((value) => value != null);
  return counted.length > 0 ? counted.reduce((sum, value) => sum + value, 0) : null;
}

/** A rate as people read it. */
export function rateText(rate: number | null | undefined): string {
  if (rate == null) return "–";
  if (rate === 0) return "0/s";
  if (rate < 0.1) return "<0.1/s";
  return `${rate < 10 ? rate.toFixed(1) : Math.round(rate).toLocaleString("en-US")}/s`;
}

/** The points of a line in a box, for SVG; gaps where there is nothing. `top` is what reaches the upper edge. */
export function linePoints(
  values: { atMs: number; value: number | null }[],
  box: { width: number; height: number; fromMs: number; toMs: number; top: number },
): string[] {
  const span = Math.max(1, box.toMs - box.fromMs);
  const lines: string[][] = [[]];
  for (const { atMs, value } of values) {
    if (value === null || atMs < box.fromMs) {
      if (lines.at(-1)?.length) lines.push([]);
      continue;
    }
    const x = ((atMs - box.fromMs) / span) * box.width;
    const y = box.height - (box.top > 0 ? Math.min(1, value / box.top) : 0) * box.height;
    lines.at(-1)?.push(`${x.toFixed(1)},${y.toFixed(1)}`);
  }
  return lines.filter((line) => line.length > 0).map((line) => line.join(" "));
}
