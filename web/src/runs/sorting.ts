/** The order of runs in an address. Pure. */

/** The order unless an address says otherwise: the newest first. */
export const NEWEST = "-started_at";

/** The order after a click on the head of a column: once by it, then the other way where there is one, or as usual. */
export function nextSort(now: string, column: string): string | undefined {
  if (column === NEWEST) return now === NEWEST ? "started_at" : undefined;
  return now === column ? undefined : column;
}
