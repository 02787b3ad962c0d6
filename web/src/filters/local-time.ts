/** Times of a filter as the reader's own clock shows them, for fields of type `datetime-local`. Pure. */

function two(part: number): string {
  return String(part).padStart(2, "0");
}

/** When a value of `from` or `to` is: ISO 8601, a date, or milliseconds since 1970. */
export function moment(value: string): Date | undefined {
  const at = /^\d{9,}$/.test(value) ? new Date(Number(value)) : new Date(value);
  return Number.isNaN(at.getTime()) ? undefined : at;
}

/** The same in milliseconds; as an `end`, a date means its last moment, as it does to the server. */
export function milliseconds(value: string | undefined, end = false): number | undefined {
  const at = value ? moment(value)?.getTime() : undefined;
  return at !== undefined && end && /^\d{4}-\d{2}-\d{2}$/.test(value ?? "") ? at + 86_400_000 - 1 : at;
}

/** The value of a field for a bound in milliseconds; nothing where the filter holds no time. */
export function fieldOf(ms: number | undefined): string {
  const at = new Date(ms ?? Number.NaN);
  if (Number.isNaN(at.getTime())) return "";
  const day = `${String(at.getFullYear()).padStart(4, "0")}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day}T${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** What the filter holds for a field's value; nothing for an empty or unfinished one. */
export function fromField(value: string): string | undefined {
  if (!value) return undefined;
  const at = new Date(value);
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString();
}

/**
 * The bound that a field means which showed `before`. One that was not changed is the same moment still: where clocks
 * are put back a field shows two moments alike, and never their milliseconds. An `end` is the last moment of its second.
 */
export function boundOf(field: string, before: number | undefined, end = false): string | undefined {
  if (field !== "" && before !== undefined && field === fieldOf(before)) return new Date(before).toISOString();
  const iso = fromField(field);
  return end ? iso?.replace(/\.000Z$/, ".999Z") : iso;
}
