/** What a filter says, piece by piece, and how each piece is taken away. Pure. */

import { time } from "../format";
import { moment } from "./local-time";
import { type Range, type RunFilter, SEVERAL, SINGLE, type Single } from "./run-filter";

/** A piece of a filter in force. */
export type Chip = {
  /** Tells it from the others. */
  key: string;
  /** What is filtered. */
  label: string;
  /** By what. */
  value: string;
  /** The filter without it. */
  without: (filter: RunFilter) => RunFilter;
  /** Whether it is the span of time, which is no part of the filter. */
  isRange?: true;
};

/** What each filter is called. */
export const LABELS: Record<Exclude<Single, "project_id">, string> = {
  q: "Text",
  app_id: "App",
  status: "Status",
  type: "Type",
  name: "Name",
  model: "Model",
  agent: "Agent",
  user_email: "User",
  thread_id: "Thread",
  parent_run_id: "Parent run",
  feedback: "Feedback",
  min_latency_s: "Latency from",
  max_latency_s: "Latency to",
  min_cost: "Cost from",
  max_cost: "Cost to",
  root: "Level",
  saved: "Saved",
  stale: "Stale",
  from: "From",
  to: "To",
};
/** What each span of time is called. */
export const RANGE_LABELS: Record<Range, string> = {
  "15m": "Last 15 minutes",
  "1h": "Last hour",
  "6h": "Last 6 hours",
  "24h": "Last 24 hours",
  "7d": "Last 7 days",
  "30d": "Last 30 days",
};
const WORDS: Partial<Record<Single, Record<string, string>>> = {
  root: { true: "roots only", false: "children only" },
  saved: { true: "yes", false: "no" },
  stale: { true: "yes", false: "no" },
};

function wording(name: Single, value: string): string {
  if (name === "from" || name === "to") {
    const at = moment(value);
    // A day without a time is the server's day: it stays as it is written.
    return at && !/^\d{4}-\d\d-\d\d$/.test(value) ? time(at.toISOString()) : value;
  }
  if (name.endsWith("_latency_s")) return `${value} s`;
  if (name.endsWith("_cost")) return `$${value}`;
  return WORDS[name]?.[value] ?? value;
}

/** The pieces of a filter in force, in the order of its names; the project is chosen elsewhere. */
export function filterChips(filter: RunFilter, range?: Range): Chip[] {
  const chips: Chip[] = [];
  if (range && !filter.from) {
    chips.push({ key: "range", label: "Time", value: RANGE_LABELS[range], without: (rest) => rest, isRange: true });
  }
  for (const name of SINGLE) {
    const value = filter[name];
    if (name === "project_id" || value === undefined) continue;
    const without = ({ [name]: _, ...rest }: RunFilter) => rest;
    chips.push({ key: name, label: LABELS[name], value: wording(name, value), without });
  }
  for (const name of SEVERAL) {
    for (const value of filter[name] ?? []) {
      const without = ({ [name]: values, ...rest }: RunFilter) => {
        const left = (values ?? []).filter((one) => one !== value);
        return left.length > 0 ? { ...rest, [name]: left } : rest;
      };
      chips.push({ key: `${name} ${value}`, label: name === "tags" ? "Any tag" : "Every tag", value, without });
    }
  }
  for (const [key, value] of Object.entries(filter.metadata ?? {})) {
    const without = ({ metadata, ...rest }: RunFilter) => {
      const left = Object.entries(metadata ?? {}).filter(([one]) => one !== key);
      return left.length > 0 ? { ...rest, metadata: Object.fromEntries(left) } : rest;
    };
    chips.push({ key: `metadata ${key}`, label: key, value, without });
  }
  return chips;
}
