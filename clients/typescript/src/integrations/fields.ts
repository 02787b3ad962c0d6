/** Reading answers of others: fields that may be there, of the kind they should be. */

/** An object of unknown fields. */
export type Fields = Record<string, unknown>;

/** The value as an object, or an empty one. */
export function fieldsOf(value: unknown): Fields {
  return typeof value === "object" && value !== null ? (value as Fields) : {};
}

/** A number, or nothing. */
export function numberOf(value: unknown): number | undefined {
  return typeof value === "number" ? value : undefined;
}

/** A text, or nothing. */
export function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** The sum of the numbers among these, or nothing where the first is none. */
export function sumOf(first: unknown, ...others: unknown[]): number | undefined {
  if (typeof first !== "number") return undefined;
  return others.reduce<number>((sum, other) => sum + (numberOf(other) ?? 0), first);
}

/** The given fields of an object, without those that are not there. */
export function pick(from: Fields, names: readonly string[]): Fields | undefined {
  let picked: Fields | undefined;
  for (const name of names) {
    if (from[name] === undefined || from[name] === null) continue;
    picked ??= {};
    picked[name] = from[name];
  }
  return picked;
}
