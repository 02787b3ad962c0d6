/** How two figures stand to each other, in words. Pure. */

import type { Shapes } from "../api/client";

type Difference = Shapes["Difference"];

/** Whether less of a figure is better. */
export type Wish = "less" | "neither";

/** The difference in words: how much, in percent, and whether that is better. */
export function differenceSaid(
  { a, b, delta, ratio }: Difference,
  format: (value: number) => string,
  wish: Wish,
): { text: string; outcome: "better" | "worse" | "same" | "other" | "unknown" } {
  if (a == null && b == null) return { text: "unknown in both", outcome: "unknown" };
  if (a == null || b == null || delta == null) {
    return { text: a == null ? "known only for B" : "known only for A", outcome: "unknown" };
  }
  if (delta === 0) return { text: "the same", outcome: "same" };
  // A very large count is read as a `bigint`.
  const amount = `${delta > 0 ? "+" : "−"}${format(Math.abs(Number(delta)))}`;
  const share = ratio == null ? "" : ` (${shareSaid(ratio)})`;
  const outcome = wish === "neither" ? "other" : delta < 0 ? "better" : "worse";
  return { text: `${amount}${share}${outcome === "other" ? "" : `, B is ${outcome}`}`, outcome };
}

/** A ratio as a change: `+25 %`, `−50 %`, or `12 ×` where it is large. */
export function shareSaid(ratio: number): string {
  if (ratio >= 10) return `${ratio.toFixed(ratio < 100 ? 1 : 0)} ×`;
  const percent = (ratio - 1) * 100;
  const size = Math.abs(percent);
  const digits = size < 10 && size !== Math.round(size) ? 1 : 0;
  if (size > 0 && Number(size.toFixed(digits)) === 0) return percent > 0 ? "<+0.1 %" : "<−0.1 %";
  return `${percent < 0 ? "−" : "+"}${size.toFixed(digits)} %`;
}
