/** What a filter says, piece by piece, and how each piece is taken away. Pure. */

import { time } from "../format";
import { FILTERS } from "./declared";
import { moment } from "./local-time";
import { DECLARED_SINGLE, type Range, type RunFilter, SEVERAL, type Several, type Single } from "./run-filter";

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

/** The label of each filter. */
export const LABELS = Object.fromEntries(FILTERS.map((declared) => [declared.name, declared.label])) as Record<
  Exclude<Single, "project_id"> | Several,
  string
>;
/** What each span of time is called. */
export const RANGE_LABELS: Record<Range, string> = {
  "15m": "Last 15 minutes",
  "1h": "Last hour",
  "6h": "Last 6 hours",
  "24h": "Last 24 hours",
  "7d": "Last 7 days",
  "30d": "Last 30 days",
};
const LEVELS: Record<string, string> = { true: "roots only", false: "children only" };
const YES_NO: Record<string, string> = { true: "yes", false: "no" };

function wording({ name, kind }: (typeof DECLARED_SINGLE)[number], value: string): string {
  switch (kind) {
    case "time": {
      const at = moment(value);
      // A day without a time is the server's day: it stays as it is written.
      return at && !/^\d{4}-\d\d-\d\d$/.test(value) ? time(at.toISOString()) : value;
    }
    case "seconds":
      return `${value} s`;
    case "dollars":
      return `$${value}`;
    case "flag":
      return (name === "root" ? LEVELS : YES_NO)[value] ?? value;
    default:
      return value;
  }
}

/** The pieces of a filter in force, in the order of its names; the project is chosen elsewhere. */
export function filterChips(filter: RunFilter, range?: Range): Chip[] {
  const chips: Chip[] = [];
  if (range && !filter.from) {
    chips.push({ key: "range", label: "Time", value: RANGE_LABELS[range], without: (rest) => rest, isRange: true });
  }
  for (const declared of DECLARED_SINGLE) {
    const { name, label } = declared;
    const value = filter[name];
    if (value === undefined) continue;
    const without = ({ [name]: _, ...rest }: RunFilter) => rest;
    chips.push({ key: name, label, value: wording(declared, value), without });
  }
  for (const name of SEVERAL) {
    for (const value of filter[name] ?? []) {
      const without = ({ [name]: values, ...rest }: RunFilter) => {
        const left = (values ?? []).filter((one) => one !== value);
        return left.length > 0 ? { ...rest, [name]: left } : rest;
      };
      chips.push({ key: `${name} ${value}`, label: LABELS[name], value, without });
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
