/**
 * JSON whose whole numbers stay what they are. JavaScript rounds those beyond 2^53, and a payload may hold ids that large:
 * they become `bigint` here, and are written as they were. Where a browser cannot do that, they are rounded as anywhere.
 */

type Context = { source?: string };
type ExactJson = {
  parse(text: string, revive: (key: string, value: unknown, context?: Context) => unknown): unknown;
  rawJSON?(text: string): unknown;
};
const json = JSON as unknown as ExactJson;

/** Whether a text may hold such a number at all: looking at each value takes time. */
const LARGE = /\d{16}/;

/** Reads JSON. */
export function parseExact(text: string): unknown {
  if (!json.rawJSON || !LARGE.test(text)) return JSON.parse(text);
  return json.parse(text, (_, value, context) => {
    const source = context?.source;
    const isRounded = typeof value === "number" && !Number.isSafeInteger(value) && source && /^-?\d+$/.test(source);
    return isRounded ? BigInt(source) : value;
  });
}

/** Writes JSON. */
export function writeExact(value: unknown, indent?: number): string {
  const write = (_: string, one: unknown) =>
    typeof one === "bigint" ? (json.rawJSON?.(String(one)) ?? Number(one)) : one;
  return JSON.stringify(value, write, indent);
}
