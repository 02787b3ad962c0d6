/** A report of usage as series for charts: every bucket has a place, the small groups are one. Pure. */

import type { Shapes } from "../api/client";
import { bucketStarts, type Interval, LENGTH, type Span } from "./span";

/** A report by model, agent, user or app. */
export type Report = Shapes["Report_Activity"];
/** The figures of some runs. */
export type Figures = Shapes["Activity"];
/** What groups can be made by. */
export type By = "model" | "agent" | "user" | "app";

/** Groups that have a colour of their own; the rest is one. */
export const TOP = 7;

/** A group over time. */
export type Series = {
  /** Tells it from the others; a key may be anything, even `other`. */
  id: string;
  /** How it is called. */
  label: string;
  /** Which of the chart colours it has, from 1. */
  colour: number;
  /** Its figures by bucket; nothing where it had no runs. */
  figures: (Figures | undefined)[];
};

/** What charts are made from. */
export type Prepared = {
  interval: Interval;
  /** Beginnings of the buckets in milliseconds. */
  starts: number[];
  /** The largest groups and the rest. */
  groups: Series[];
  /** All runs by bucket. */
  all: (Figures | undefined)[];
};

/** What a group without a key is called. */
export function groupLabel(key: string | null | undefined, by: By): string {
  if (key == null) return `(no ${by})`;
  return key.length > 200 ? `${key.slice(0, 200)}…` : key;
}

/** The sum of figures. Percentiles of several groups cannot be computed from the percentiles of each. */
export function sum(parts: (Partial<Figures> | null | undefined)[]): Figures {
  const all: Figures = {
    runs: 0,
    calls: 0,
    prompt_tokens: 0,
    completion_tokens: 0,
    total_tokens: 0,
    cost: 0,
    errors: 0,
    error_rate: 0,
    latency_p50_s: null,
    latency_p95_s: null,
  };
  for (const part of parts) {
    if (!part) continue;
    for (const name of ADDED) all[name] += part[name] ?? 0;
  }
  all.error_rate = all.runs > 0 ? all.errors / all.runs : 0;
  return all;
}
const ADDED = ["runs", "calls", "prompt_tokens", "completion_tokens", "total_tokens", "cost", "errors"] as const;

/** Series by bucket. Buckets outside of `span`, from clocks that run ahead, make it longer. */
export function prepare(report: Report, by: By, interval: Interval, span: Span): Prepared {
  const series = report.series ?? [];
  const at = (bucket: { start: string }) => Date.parse(bucket.start);
  const last = series.at(-1);
  const [length, first] = [LENGTH[interval], series[0]];
  const starts = bucketStarts(
    {
      from: Math.min(span.from, first ? at(first) : span.from),
      to: Math.max(span.to, last ? at(last) + length - 1 : span.to),
    },
    interval,
  );
  const buckets = new Map(series.map((bucket) => [at(bucket), bucket]));
  const keys = report.groups.slice(0, TOP).map((group) => group.key ?? null);
  const top = new Set(keys);

  const groups: Series[] = keys.map((key, index) => ({
    id: key === null ? "none" : `key ${key}`,
    label: groupLabel(key, by),
    colour: index + 1,
    figures: starts.map((start) => buckets.get(start)?.groups.find((group) => (group.key ?? null) === key)),
  }));
  if (report.groups.length > TOP || report.other) {
    groups.push({
      id: "other",
      label: "Other",
      colour: TOP + 1,
      figures: starts.map((start) => {
        const bucket = buckets.get(start);
        if (!bucket) return undefined;
        const rest = [...bucket.groups.filter((group) => !top.has(group.key ?? null)), bucket.other].filter(Boolean);
        return rest.length > 0 ? sum(rest) : undefined;
      }),
    });
  }
  return { interval, starts, groups, all: starts.map((start) => buckets.get(start)?.totals) };
}

/** Values on top of each other: each series begins where the one before it ends. */
export function stacked(series: (number | null)[][]): number[][] {
  const below: number[] = [];
  return series.map((values) =>
    values.map((value, index) => {
      const total = (below[index] ?? 0) + (value ?? 0);
      below[index] = total;
      return total;
    }),
  );
}
