/**
 * JSON whose numbers stay what they are. JavaScript rounds whole numbers beyond 2^53, long fractions, and makes infinity of
 * 1e400: a payload may hold all of them. Such whole numbers become `bigint` here, others an [`ExactNumber`], and they are
 * written as they were. Where a browser cannot do that, they are rounded as anywhere.
 */

type Context = { source?: string };
type ExactJson = {
  parse(text: string, revive: (key: string, value: unknown, context?: Context) => unknown): unknown;
  rawJSON?(text: string): unknown;
};
const json = JSON as unknown as ExactJson;

/** A number that JavaScript has none for, as it was written. */
export class ExactNumber {
  constructor(
    /** Its digits, as JSON has them. */
    readonly digits: string,
  ) {}

  toString(): string {
    return this.digits;
  }

  toJSON(): unknown {
    return json.rawJSON?.(this.digits) ?? Number(this.digits);
  }
}

/** Whether a text may hold such a number at all: looking at each value takes time. */
const SUSPECT = /\d[\d.]{15}|\d[eE][+-]?\d{3}/;
const PARTS = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;
/** Whole numbers of more digits are only shown and written: no number of JavaScript's is that large. */
const WHOLE = /^-?\d{1,309}$/;

/** Reads JSON. */
export function parseExact(text: string): unknown {
  if (!json.rawJSON || !SUSPECT.test(text)) return JSON.parse(text);
  return json.parse(text, (_, value, context) => {
    const source = context?.source;
    if (typeof value !== "number" || source === undefined || source === String(value)) return value;
    if (WHOLE.test(source)) return Number.isSafeInteger(value) ? value : BigInt(source);
    return isSame(source, value) ? value : new ExactNumber(source);
  });
}

/** Writes JSON. */
export function writeExact(value: unknown, indent?: number): string {
  const write = (_: string, one: unknown) =>
    typeof one === "bigint" ? (json.rawJSON?.(String(one)) ?? Number(one)) : one;
  return JSON.stringify(value, write, indent);
}

/** Whether a number, written by JavaScript, is what was read: `1.50` is 1.5, and `1e400` is not Infinity. */
function isSame(source: string, value: number): boolean {
  return Number.isFinite(value) && plain(source) === plain(String(value));
}

/** A number's digits without zeros around them, and its exponent. */
function plain(written: string): string {
  const [, sign = "", whole = "", part = "", exponent = "0"] = PARTS.exec(written) ?? [];
  const digits = whole + part;
  let [start, end] = [0, digits.length];
  while (digits[start] === "0") start += 1;
  while (end > start && digits[end - 1] === "0") end -= 1;
  if (start === end) return "0";
  return `${sign}${digits.slice(start, end)}e${Number(exponent) - part.length + digits.length - end}`;
}
