/** Figures and times as people read them. Pure: what is now comes in as an argument. */

const WHOLE = new Intl.NumberFormat("en-US");
const SHORT = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

/** A whole number with thousands apart; a dash for none. */
export function count(value: number | null | undefined): string {
  return value == null ? "–" : WHOLE.format(value);
}

/** A large number in few letters, such as `12.3K`. */
export function compact(value: number | null | undefined): string {
  return value == null ? "–" : SHORT.format(value);
}

/** US dollars: cents where they matter, and small sums with the digits that tell them from nothing. */
export function dollars(value: number | null | undefined): string {
  if (value == null) return "–";
  if (value === 0) return "$0";
  const size = Math.abs(value);
  const digits = size >= 1 ? 2 : size >= 0.01 ? 4 : 6;
  if (size < 0.000_001) return value > 0 ? "<$0.000001" : ">-$0.000001";
  const [sign, text] = [value < 0 ? "-" : "", size.toFixed(digits)];
  const [whole = "0", part] = text.split(".");
  return `${sign}$${WHOLE.format(Number(whole))}${part ? `.${part}` : ""}`;
}

/** A length of time from seconds; a dash for none. */
export function duration(seconds: number | null | undefined): string {
  if (seconds == null) return "–";
  if (seconds < 0.0005) return "0 ms";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
  const whole = Math.round(seconds);
  const [d, h, m, s] = [
    Math.floor(whole / 86_400),
    Math.floor(whole / 3600) % 24,
    Math.floor(whole / 60) % 60,
    whole % 60,
  ];
  if (d > 0) return `${d} d ${h} h`;
  return h > 0 ? `${h} h ${m} min` : `${m} min ${s} s`;
}

/** A share from 0 to 1 in percent. */
export function percent(share: number | null | undefined): string {
  return share == null ? "–" : `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;
}

/** Bytes in binary units. */
export function bytes(value: number | null | undefined): string {
  if (value == null) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let [size, unit] = [value, 0];
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? size : size.toFixed(1)} ${units[unit]}`;
}

/** A time in the reader's zone, to the second: `2026-11-21 21:04:05`. */
export function time(iso: string | null | undefined): string {
  if (!iso) return "–";
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return iso;
  const two = (part: number) => String(part).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** How long ago something was: `3 min ago`. */
export function ago(iso: string | null | undefined, nowMs: number): string {
  if (!iso) return "–";
  const seconds = (nowMs - new Date(iso).getTime()) / 1000;
  if (Number.isNaN(seconds)) return iso;
  if (seconds < 5) return "now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
}
