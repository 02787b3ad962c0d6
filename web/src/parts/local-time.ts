/** Times in addresses and in the browser's own date fields, which know minutes and the reader's zone. Pure. */

const DATE = /^\d{4}-\d{2}-\d{2}$/;
const WHOLE = /^\d+$/;
const DAY = 86_400_000;
const MINUTE = 60_000;

/**
 * Milliseconds of a time as the API takes it: ISO 8601, a date (in UTC; as an `end` its last moment), milliseconds.
 * `undefined` for anything else.
 */
export function readTime(text: string | undefined, end = false): number | undefined {
  if (!text) return undefined;
  if (WHOLE.test(text)) return Number(text);
  const ms = Date.parse(text);
  if (Number.isNaN(ms)) return undefined;
  return end && DATE.test(text) ? ms + DAY - 1 : ms;
}

/** What a `datetime-local` field shows for this time. */
export function fieldOf(ms: number | undefined): string {
  if (ms === undefined || !Number.isFinite(ms)) return "";
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return "";
  const two = (part: number) => String(part).padStart(2, "0");
  const year = String(at.getFullYear()).padStart(4, "0");
  return `${year}-${two(at.getMonth() + 1)}-${two(at.getDate())}T${two(at.getHours())}:${two(at.getMinutes())}`;
}

/** The time in a `datetime-local` field as ISO 8601; as an `end`, the last moment of its minute. */
export function ofField(value: string, end = false): string | undefined {
  const ms = new Date(value).getTime();
  if (value === "" || Number.isNaN(ms)) return undefined;
  return new Date(end ? ms + MINUTE - 1 : ms).toISOString();
}
