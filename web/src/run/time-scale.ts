/** Where spans lie on an axis of time. Pure; times are milliseconds since 1970. */

import { type Span, startOf } from "./span-tree";

/** A stretch of time. */
export type Stretch = { from: number; to: number };
/** A bar on the axis, in percent of its width. */
export type Bar = {
  left: number;
  width: number;
  /** Whether it has no end: its end was not reported. */
  isOpen: boolean;
  /** Whether it goes on beyond the axis, at either side. */
  cutLeft: boolean;
  cutRight: boolean;
};

/** When a span ended, if it has. An end before the start, which clocks can make, is taken as the start. */
export function endOf(span: Span): number | undefined {
  return span.ended_at == null ? undefined : Math.max(startOf(span), Date.parse(span.ended_at));
}

/** Whether a run is still going, as far as one knows. */
export function isGoing(run: { status: string; stale: boolean }): boolean {
  return run.status === "started" && !run.stale;
}

/**
 * From the first start to the last end, or to now while the whole is going. A span that has no end below one that has
 * stretches nothing: its duration is unknown. Never empty.
 */
export function stretchOf(spans: readonly Span[], nowMs: number): Stretch {
  let [from, to] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  const here = new Set(spans.map((span) => span.run_id));
  for (const span of spans) {
    const start = startOf(span);
    const isTop = span.parent_run_id == null || !here.has(span.parent_run_id);
    from = Math.min(from, start);
    to = Math.max(to, endOf(span) ?? (isTop && isGoing(span) ? Math.max(nowMs, start) : start));
  }
  if (!Number.isFinite(from) || !Number.isFinite(to)) return { from: nowMs, to: nowMs + 1 };
  return { from, to: Math.max(to, from + 1) };
}

/** A span's own time, with a little around it. One without an end goes on to the end of the whole. */
export function zoomOf(span: Span, whole: Stretch): Stretch {
  const from = startOf(span);
  const to = Math.max(endOf(span) ?? whole.to, from + 1);
  const around = (to - from) * 0.03;
  return { from: from - around, to: to + around };
}

/** The bar of a span; nothing where it lies outside of the axis. */
export function barOf(span: Span, axis: Stretch, whole: Stretch): Bar | undefined {
  const start = startOf(span);
  const ended = endOf(span);
  const end = ended ?? Math.max(whole.to, start);
  if (end < axis.from || start > axis.to) return undefined;
  const size = axis.to - axis.from;
  const [from, to] = [Math.max(start, axis.from), Math.min(end, axis.to)];
  return {
    left: ((from - axis.from) / size) * 100,
    width: ((to - from) / size) * 100,
    isOpen: ended === undefined,
    cutLeft: start < axis.from,
    cutRight: end > axis.to,
  };
}

/** Steps that people count in, in milliseconds: 1, 2 and 5 below a minute, then minutes, hours and days. */
const LONG_STEPS = [60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400].map((seconds) => seconds * 1_000);

/** The smallest round step of which at most `count` fit. */
export function stepOf(sizeMs: number, count: number): number {
  const least = sizeMs / Math.max(1, count);
  if (least <= 30_000) {
    if (least > 10_000) return least <= 15_000 ? 15_000 : 30_000;
    const power = 10 ** Math.floor(Math.log10(Math.max(least, 0.01)));
    return [1, 2, 5, 10].map((one) => one * power).find((one) => one >= least * (1 - 1e-9)) ?? 10 * power;
  }
  const long = LONG_STEPS.find((one) => one >= least);
  return long ?? Math.ceil(least / 86_400_000) * 86_400_000;
}

/** A mark on the axis: where, in percent, and what stands there. */
export type Tick = { at: number; label: string };

/** Marks on the axis, counted from the beginning of the trace. */
export function ticksOf(axis: Stretch, origin: number, count: number): Tick[] {
  const size = axis.to - axis.from;
  const step = stepOf(size, count);
  const ticks: Tick[] = [];
  const first = Math.ceil((axis.from - origin) / step - 1e-9);
  for (let index = first; ticks.length <= count + 1; index += 1) {
    const offset = index * step;
    const at = ((offset + origin - axis.from) / size) * 100;
    if (at > 100 + 1e-9) break;
    ticks.push({ at, label: offsetLabel(offset, step) });
  }
  return ticks;
}

/** A time after the beginning, with as many digits as the step has. */
export function offsetLabel(offsetMs: number, stepMs: number): string {
  const [sign, size] = [offsetMs < 0 ? "-" : "", Math.abs(offsetMs)];
  const fixed = (value: number, unit: number) =>
    value.toFixed(Math.min(3, Math.max(0, -Math.floor(Math.log10(stepMs / unit) + 1e-9))));
  if (size < 1e-9) return "0";
  if (size < 1_000 && stepMs < 1_000) return `${sign}${fixed(size, 1)} ms`;
  if (stepMs < 60_000 && size < 60_000) return `${sign}${fixed(size / 1_000, 1_000)} s`;
  const whole = Math.floor(size / 1_000 + 1e-9);
  const [h, m, s] = [Math.floor(whole / 3_600), Math.floor(whole / 60) % 60, whole % 60];
  const rest = size / 1_000 - whole;
  const seconds = stepMs < 1_000 ? (s + rest).toFixed(3) : String(s);
  if (h >= 48) return `${sign}${Math.floor(h / 24)} d ${h % 24} h`;
  if (h > 0)
    return `${sign}${h}:${String(m).padStart(2, "0")}${stepMs < 60_000 ? `:${seconds.padStart(2, "0")}` : " h"}`;
  return stepMs < 60_000 ? `${sign}${m}:${seconds.padStart(stepMs < 1_000 ? 6 : 2, "0")}` : `${sign}${m} min`;
}
