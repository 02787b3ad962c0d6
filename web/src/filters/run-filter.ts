/**
 * The filter of runs and its form in an address. It uses the names of the API, so a link to a view and a question to
 * the server read the same. Pure.
 */

import { FILTERS } from "./declared";

/** A filter as the server declares it. */
export type Declared = (typeof FILTERS)[number];
type DeclaredSeveral = Extract<Declared, { kind: "tags" }>;
type DeclaredSingle = Exclude<Declared, { kind: "tags" | "entries" }>;
/** A filter with one value. */
export type Single = DeclaredSingle["name"] | "project_id";
/** A filter with several values. */
export type Several = DeclaredSeveral["name"];

/** Declarations of the filters with one value. */
export const DECLARED_SINGLE = FILTERS.filter(
  (declared): declared is DeclaredSingle => declared.kind !== "tags" && declared.kind !== "entries",
);
/** Declarations of the filters with several. */
export const DECLARED_SEVERAL = FILTERS.filter((declared): declared is DeclaredSeveral => declared.kind === "tags");
/** Filters with one value. */
export const SINGLE: readonly Single[] = [...DECLARED_SINGLE.map((declared) => declared.name), "project_id"];
/** Filters with several. */
export const SEVERAL: readonly Several[] = DECLARED_SEVERAL.map((declared) => declared.name);

/** Which runs are meant. What is absent does not filter. */
export type RunFilter = Partial<Record<Single, string>> &
  Partial<Record<Several, string[]>> & {
    /** Values of metadata keys. */
    metadata?: Record<string, string>;
  };

const METADATA = "metadata.";
/** Spans of time that end now, in seconds: `range=24h` in an address stays true when it is opened tomorrow. */
export const RANGES = {
  "15m": 900,
  "1h": 3_600,
  "6h": 21_600,
  "24h": 86_400,
  "7d": 604_800,
  "30d": 2_592_000,
} as const;
/** One of them. */
export type Range = keyof typeof RANGES;

/** The filter in an address. Empty values and unknown names are no filters. */
export function readFilter(params: URLSearchParams): RunFilter {
  const filter: RunFilter = {};
  for (const name of SINGLE) {
    const value = params.get(name);
    if (value) filter[name] = value;
  }
  for (const name of SEVERAL) {
    const values = [...new Set(params.getAll(name).filter((value) => value !== ""))];
    if (values.length > 0) filter[name] = values;
  }
  for (const [name, value] of params) {
    if (name.startsWith(METADATA) && name.length > METADATA.length && value) {
      filter.metadata = { ...filter.metadata, [name.slice(METADATA.length)]: value };
    }
  }
  return filter;
}

/** Writes the filter into an address; what else is in it (sort, columns, range) stays. */
export function writeFilter(filter: RunFilter, before: URLSearchParams = new URLSearchParams()): URLSearchParams {
  const params = new URLSearchParams();
  const ours = new Set<string>([...SINGLE, ...SEVERAL]);
  for (const [name, value] of before) {
    if (!ours.has(name) && !name.startsWith(METADATA)) params.append(name, value);
  }
  for (const name of SINGLE) {
    const value = filter[name];
    if (value) params.set(name, value);
  }
  for (const name of SEVERAL) {
    for (const value of filter[name] ?? []) params.append(name, value);
  }
  for (const [key, value] of Object.entries(filter.metadata ?? {})) params.set(METADATA + key, value);
  return params;
}

/** The range in an address, if there is one. */
export function readRange(params: URLSearchParams): Range | undefined {
  const range = params.get("range");
  return range && Object.hasOwn(RANGES, range) ? (range as Range) : undefined;
}

/**
 * The query of the API for this filter. A range becomes a `from`, to the full minute, so that equal views ask equal
 * questions.
 */
export function apiQuery(
  filter: RunFilter,
  range: Range | undefined,
  nowMs: number,
): Record<string, string | string[]> {
  const { metadata, ...rest } = filter;
  const query: Record<string, string | string[]> = { ...(rest as Record<string, string | string[]>) };
  for (const [key, value] of Object.entries(metadata ?? {})) query[METADATA + key] = value;
  if (range && !filter.from) {
    const from = Math.floor((nowMs - RANGES[range] * 1000) / 60_000) * 60_000;
    query.from = new Date(from).toISOString();
  }
  return query;
}

/** Whether anything but the project is filtered. */
export function isFiltered(filter: RunFilter): boolean {
  return [...writeFilter(filter).keys()].some((name) => name !== "project_id");
}
