/** The order of groups in their table. Pure. */

import type { Shapes } from "../api/client";
import type { Figures } from "./series";

/** A group of the report. */
export type Group = Shapes["Group_Activity"];

/** Columns one can sort by, and where each finds its figure. */
export const COLUMNS = {
  runs: (group) => group.runs,
  calls: (group) => group.calls,
  cost: (group) => group.cost,
  tokens: (group) => group.total_tokens,
  p50: (group) => group.latency_p50_s ?? null,
  p95: (group) => group.latency_p95_s ?? null,
  ttft: (group) => group.ttft_p50_ms ?? null,
  speed: (group) => group.tokens_per_second ?? null,
  errors: (group) => group.errors,
  error_rate: (group) => group.error_rate,
} as const satisfies Record<string, (figures: Figures) => number | null>;
/** One of them, or the name. */
export type SortColumn = keyof typeof COLUMNS | "key";

/** The sort in an address, such as `-cost`. */
export function readSort(text: string | null): { column: SortColumn; isDown: boolean } {
  const isDown = text?.startsWith("-") ?? true;
  const column = text?.replace(/^-/, "") ?? "cost";
  return column === "key" || Object.hasOwn(COLUMNS, column)
    ? { column: column as SortColumn, isDown }
    : { column: "cost", isDown: true };
}

/** What choosing a column means: figures begin with the largest, names with A; again turns it round. */
export function nextSort(text: string | null, column: SortColumn): string {
  const now = readSort(text);
  if (now.column === column) return now.isDown ? column : `-${column}`;
  return column === "key" ? "key" : `-${column}`;
}

/** Groups in order. What is not known is last either way, and equals stay as they were. */
export function ordered(groups: readonly Group[], sort: string | null): Group[] {
  const { column, isDown } = readSort(sort);
  const turn = isDown ? -1 : 1;
  if (column === "key") {
    return [...groups].sort((a, b) => {
      if (a.key == null || b.key == null) return Number(a.key == null) - Number(b.key == null);
      return turn * a.key.localeCompare(b.key, "en");
    });
  }
  const value = COLUMNS[column];
  return [...groups].sort((a, b) => {
    const [one, two] = [value(a), value(b)];
    if (one === null || two === null) return Number(one === null) - Number(two === null);
    return turn * (one - two);
  });
}
