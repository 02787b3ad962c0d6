/** How a figure changed against the time before, in words. Pure. */

/** Whether more is worse, better, or only more. */
export type Sense = "worse" | "better" | "neither";
/** A change. */
export type Change = { text: string; kind: "good" | "bad" | "" };

const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** The change from `before` to `now`; nothing where one of them is not known. Shares change in percentage points. */
export function changeOf(
  now: number | null | undefined,
  before: number | null | undefined,
  { isShare = false, more = "neither" as Sense } = {},
): Change | undefined {
  if (now == null || before == null) return undefined;
  if (isShare) {
    const points = (now - before) * 100;
    if (Math.abs(points) < 0.05) return { text: "no change", kind: "" };
    return { text: `${sign(points)}${Math.abs(points).toFixed(1)} points`, kind: kindOf(points, more) };
  }
  if (before === 0) return now === 0 ? { text: "no change", kind: "" } : { text: "none before", kind: "" };
  const percent = (now / before - 1) * 100;
  if (Math.abs(percent) < 0.5) return { text: "no change", kind: "" };
  const size = Math.abs(percent);
  const text = size >= 1000 ? `▲ ${WHOLE.format(now / before)} times` : `${sign(percent)}${size.toFixed(0)} %`;
  return { text, kind: kindOf(percent, more) };
}

function sign(value: number): string {
  return value > 0 ? "▲ +" : "▼ −";
}

function kindOf(difference: number, more: Sense): Change["kind"] {
  if (more === "neither") return "";
  return difference > 0 === (more === "worse") ? "bad" : "good";
}
