/** The stretch of time that is looked at, and the buckets it is cut into. Buckets are the server's: UTC. Pure. */

import { milliseconds } from "../filters/local-time";

/** Length of a bucket. */
export type Interval = "hour" | "day";
/** From and to in milliseconds, both inclusive. */
export type Span = { from: number; to: number };

/** Milliseconds of a bucket. */
export const LENGTH = { hour: 3_600_000, day: 86_400_000 } as const;
/** Buckets the server gives at most. */
export const MOST = 1000;
/** Below this, hours are shown unless days are asked for. */
const HOURS_BELOW = 3 * LENGTH.day;
/** What the server looks at where no `from` is given. */
const DEFAULT = 30 * LENGTH.day;

/** The span a question means. A bound that cannot be read is as if it were not there: the server says so. */
export function spanOf(query: { from?: unknown; to?: unknown }, nowMs: number): Span {
  const read = (value: unknown, end: boolean) => (typeof value === "string" ? milliseconds(value, end) : undefined);
  const to = read(query.to, true) ?? nowMs;
  return { from: read(query.from, false) ?? to - DEFAULT, to };
}

/** How many buckets a span touches. */
export function bucketCount(span: Span, interval: Interval): number {
  const length = LENGTH[interval];
  return Math.max(0, Math.floor(span.to / length) - Math.floor(span.from / length) + 1);
}

/** Whether the server would give this many buckets. */
export function isPossible(span: Span, interval: Interval): boolean {
  return bucketCount(span, interval) <= MOST;
}

/** The interval for a span: the chosen one where it is possible, else what reads well; none where none is possible. */
export function intervalFor(span: Span, chosen: string | null | undefined): Interval | undefined {
  const wanted: Interval[] = span.to - span.from < HOURS_BELOW ? ["hour", "day"] : ["day"];
  if (chosen === "hour" || chosen === "day") wanted.unshift(chosen);
  return wanted.find((interval) => isPossible(span, interval));
}

/** Where each bucket of a span begins, oldest first. */
export function bucketStarts(span: Span, interval: Interval): number[] {
  const length = LENGTH[interval];
  const first = Math.floor(span.from / length) * length;
  const all = Math.min(bucketCount(span, interval), MOST);
  return Array.from({ length: all }, (_, index) => first + index * length);
}

/** The whole buckets that a stretch of a chart touches, never more than what is shown. */
export function snapped(drawn: Span, interval: Interval, shown: Span): Span {
  const length = LENGTH[interval];
  const from = Math.floor(drawn.from / length) * length;
  const to = Math.ceil(drawn.to / length) * length - 1;
  return { from: Math.max(from, shown.from), to: Math.min(Math.max(to, from + length - 1), shown.to) };
}

/** The equally long time before. */
export function before(span: Span): Span {
  return { from: span.from - (span.to - span.from) - 1, to: span.from - 1 };
}

/** The length of a span in words, such as `7 days`. */
export function lengthText({ from, to }: Span): string {
  const minutes = Math.max(1, Math.round((to - from) / 60_000));
  const several = (n: number, word: string) => `${n} ${word}${n === 1 ? "" : "s"}`;
  if (minutes < 120) return several(minutes, "minute");
  const hours = Math.round(minutes / 60);
  return hours < 72 ? several(hours, "hour") : several(Math.round(hours / 24), "day");
}
