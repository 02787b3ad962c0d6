/** What is charted: how each figure is taken from a group and written. Pure. */

import { compact, count, dollars, duration, percent } from "../format";
import type { Figures } from "./series";

/** One chart. */
export type Measure = {
  id: "cost" | "runs" | "calls" | "p50" | "p95" | "errors";
  title: string;
  /** What is counted in each bucket: the words before `by day`. */
  unit: string;
  /** Whether groups add up to the whole: bars on top of each other. Otherwise lines, with gaps where nothing is known. */
  isSum: boolean;
  value: (figures: Figures | undefined) => number | null;
  /** In full, for tables. */
  text: (value: number | null) => string;
  /** In few letters, for an axis that ends at `highest`. */
  short: (value: number, highest: number) => string;
  /** Steps of an axis that is no decimal one. */
  steps?: number[];
};

/** Dollars at an axis. */
function shortDollars(value: number): string {
  if (value === 0) return "$0";
  if (Math.abs(value) >= 1000) return `$${compact(value)}`;
  return `$${Number(value.toPrecision(3))}`;
}

/** Seconds at an axis, all in the unit that fits the highest. */
export function shortSeconds(value: number, highest: number): string {
  if (value === 0) return "0";
  const [unit, length] =
    highest < 1 ? ["ms", 0.001] : highest < 180 ? ["s", 1] : highest < 10_800 ? ["min", 60] : ["h", 3600];
  return `${Number((value / Number(length)).toPrecision(3))} ${unit}`;
}

/** Steps of a time axis: decimal below a minute, then the steps of clocks. */
const CLOCK = [
  ...[-3, -2, -1].flatMap((power) => [1, 2, 5].map((step) => Number((step * 10 ** power).toPrecision(1)))),
  ...[1, 2, 5, 10, 20, 30],
  ...[60, 120, 300, 600, 1200, 1800],
  ...[3600, 7200, 14_400, 21_600, 43_200, 86_400, 172_800, 432_000],
];

/** The charts, in the order they are shown. */
export const MEASURES: Measure[] = [
  {
    id: "cost",
    title: "Own cost",
    unit: "USD",
    isSum: true,
    value: (figures) => figures?.cost ?? 0,
    text: dollars,
    short: shortDollars,
  },
  {
    id: "runs",
    title: "Runs",
    unit: "runs",
    isSum: true,
    value: (figures) => figures?.runs ?? 0,
    text: count,
    short: compact,
  },
  {
    id: "calls",
    title: "Model calls",
    unit: "calls",
    isSum: true,
    value: (figures) => figures?.calls ?? 0,
    text: count,
    short: compact,
  },
  {
    id: "errors",
    title: "Error rate",
    unit: "share of runs",
    isSum: false,
    value: (figures) => (figures && figures.runs > 0 ? figures.error_rate : null),
    text: percent,
    short: (value) => `${Number((value * 100).toPrecision(3))} %`,
  },
  {
    id: "p50",
    title: "Latency, median (p50)",
    unit: "time",
    steps: CLOCK,
    isSum: false,
    value: (figures) => figures?.latency_p50_s ?? null,
    text: duration,
    short: shortSeconds,
  },
  {
    id: "p95",
    title: "Latency, 95th percentile (p95)",
    unit: "time",
    steps: CLOCK,
    isSum: false,
    value: (figures) => figures?.latency_p95_s ?? null,
    text: duration,
    short: shortSeconds,
  },
];
