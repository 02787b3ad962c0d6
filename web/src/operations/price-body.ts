/**
 * Prices between fields and JSON, digit for digit. Pure.
 *
 * JavaScript's numbers carry 15 digits faithfully; the server keeps prices exactly, with up to 18 digits after the
 * point for a token. So a price is a text here, from the answer into the field and from the field into the body.
 */

import type { Shapes } from "../api/client";
import { exact, readJson } from "./json-text";

const FIELDS = ["input", "output", "cached_input", "total"] as const;
/** Kinds that few models have prices of; the form shows them and keeps them. */
const KINDS = ["cache_write", "cache_write_1h", "input_audio", "input_image", "output_audio", "reasoning"] as const;
/** Tokens a price is for. */
export type Unit = "1k" | "1m";
/** What is priced. */
export type Field = (typeof FIELDS)[number];
/** A price with its rates as decimal texts. */
export type PriceRow = Pick<Shapes["Price"], "model" | "prefix" | "effective_from" | "origin" | "changed_at"> &
  Record<`${Field}_per_${Unit}`, string | null> &
  Partial<Record<`${(typeof KINDS)[number]}_per_${Unit}` | "request", string>> & {
    tiers?: Record<string, string>[];
    service_tiers?: Record<string, string>;
  };
/** What stands in the fields of a form. */
export type PriceFields = Record<Field, string> & {
  unit: Unit;
  effective_from: string;
  prefix: boolean;
};

/** The bounds of a price, as the server has them. */
export const BOUNDS = { "1k": { max: 1_000, digits: 15 }, "1m": { max: 1_000_000, digits: 12 } } as const;

/** Prices in an answer. */
export function readPrices(text: string): PriceRow[] {
  return (exact(readJson(text)) as { data: PriceRow[] }).data;
}

/** Names a row among all: a model has several, by date and kind. */
export function priceKey(row: Pick<PriceRow, "model" | "prefix" | "effective_from">): string {
  return JSON.stringify([row.model, row.prefix, row.effective_from ?? null]);
}

/** A decimal as JSON has it; `undefined` where it is none. */
export function decimal(text: string): string | undefined {
  const found = /^(\d*)(?:\.(\d*))?$/.exec(text.trim());
  const [, whole = "", part = ""] = found ?? [];
  if (!found || whole + part === "") return undefined;
  const [left, right] = [whole.replace(/^0+(?=\d)/, "") || "0", part.replace(/0+$/, "")];
  return right ? `${left}.${right}` : left;
}

/** What is wrong with a price in a field; nothing is wrong with an empty optional one. */
export function priceFault(text: string, unit: Unit, isNeeded: boolean): string | undefined {
  if (text.trim() === "") return isNeeded ? "A price is required." : undefined;
  const found = decimal(text);
  if (found === undefined) return "Enter a decimal number such as 0.15.";
  const [whole = "", part = ""] = found.split(".");
  const { max, digits } = BOUNDS[unit];
  // Both parts are short enough for the comparison once the length is.
  const isOver = whole.length > 7 || Number(whole) > max || (Number(whole) === max && part !== "");
  if (isOver) return `At most ${max.toLocaleString("en-US")}.`;
  return part.length > digits ? `At most ${digits} decimal digits.` : undefined;
}

/** Whether nothing is wrong with any of them. */
export function isGood(fields: PriceFields): boolean {
  return FIELDS.every((field) => !priceFault(fields[field], fields.unit, field === "input" || field === "output"));
}

/** The fields of an object that are in the unit, or in none. */
function inUnit(fields: Record<string, string>, unit: Unit): [string, string][] {
  const other = unit === "1k" ? "_per_1m" : "_per_1k";
  return Object.entries(fields).filter(([name]) => !name.endsWith(other));
}

const object = (fields: [string, string][]) =>
  `{${fields.map(([name, digits]) => `${JSON.stringify(name)}:${digits}`).join(",")}}`;

/** What a row has beside the fields of the form, as parts of a body: setting a price replaces all of it. */
function keptParts(row: PriceRow, unit: Unit): string[] {
  const rates = KINDS.map((kind) => `${kind}_per_${unit}` as const);
  const parts = [...rates, "request" as const].flatMap((name) => (row[name] ? [`"${name}":${row[name]}`] : []));
  const tiers = row.tiers?.map((tier) => object(inUnit(tier, unit)));
  if (tiers?.length) parts.push(`"tiers":[${tiers.join(",")}]`);
  if (row.service_tiers) parts.push(`"service_tiers":${object(Object.entries(row.service_tiers))}`);
  return parts;
}

/** The same in words; empty for nothing. */
export function keptText(row: PriceRow, unit: Unit): string {
  const name = (field: string) => field.replace(/_per_1[km]$/, "").replaceAll("_", " ");
  const rates = KINDS.map((kind) => `${kind}_per_${unit}` as const);
  const words = [...rates, "request" as const].flatMap((field) => (row[field] ? [`${name(field)} ${row[field]}`] : []));
  for (const { above_input_tokens, ...tier } of row.tiers ?? []) {
    const prices = inUnit(tier, unit).map(([field, price]) => `${name(field)} ${price}`);
    words.push(`above ${Number(above_input_tokens).toLocaleString("en-US")} tokens: ${prices.join(", ")}`);
  }
  words.push(...Object.entries(row.service_tiers ?? {}).map(([tier, factor]) => `${tier} × ${factor}`));
  return words.join("; ");
}

/**
 * The body of a PUT: the digits of the fields, never a number of JavaScript. What the row that is changed has besides is
 * kept.
 */
export function priceBody(fields: PriceFields, of?: PriceRow): string {
  const parts = FIELDS.flatMap((field) => {
    const digits = decimal(fields[field]);
    return digits === undefined ? [] : [`"${field}_per_${fields.unit}":${digits}`];
  });
  if (of) parts.push(...keptParts(of, fields.unit));
  const from = fields.effective_from.trim();
  if (from) parts.push(`"effective_from":${JSON.stringify(from)}`);
  if (fields.prefix) parts.push('"prefix":true');
  return `{${parts.join(",")}}`;
}

/** The fields of a row. */
export function priceFields(row: PriceRow, unit: Unit): PriceFields {
  const rates = Object.fromEntries(FIELDS.map((field) => [field, row[`${field}_per_${unit}`] ?? ""]));
  return { ...(rates as Record<Field, string>), unit, effective_from: row.effective_from ?? "", prefix: row.prefix };
}
