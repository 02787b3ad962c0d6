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

/** A whole number from 0, or nothing. */
export function countOf(value: unknown): number | undefined {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 ? value : undefined;
}

/** A list, or an empty one. */
export function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

/** The given fields of an object that are there and not empty. */
export function present(from: Fields, names: readonly string[]): Fields {
  const isEmpty = (value: unknown) => !value || (Array.isArray(value) && value.length === 0);
  return Object.fromEntries(names.filter((name) => !isEmpty(from[name])).map((name) => [name, from[name]]));
}

/**
 * Parts of a whole without overlap: an earlier one has its tokens, a later one what is left.
 *
 * OpenAI counts cached audio both as cached and as audio.
 */
export function partsOf(whole: number | undefined, ...counts: (number | undefined)[]): (number | undefined)[] {
  let left = whole;
  return counts.map((count) => {
    const part = count === undefined || left === undefined ? count : Math.min(count, left);
    if (part !== undefined && left !== undefined) left -= part;
    return part;
  });
}

/** Types of parts that are text. */
const TEXTS = ["text", "input_text", "output_text"];

/** The text of content that is nothing else; otherwise the content. */
export function textOrBlocks(content: unknown): unknown {
  if (!Array.isArray(content) || content.length === 0) return content;
  const texts = content
    .map(fieldsOf)
    .filter(({ type, text }) => TEXTS.includes(String(type)) && typeof text === "string");
  return texts.length === content.length ? texts.map(({ text }) => text).join("") : content;
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
