/**
 * Prices between fields and JSON, digit for digit. Pure.
 *
 * JavaScript's numbers carry 15 digits faithfully; the server keeps prices exactly, with up to 18 digits after the
 * point for a token. So a price is a text here, from the answer into the field and from the field into the body.
 */

import type { Shapes } from "../api/client";
import { exact, readJson } from "./json-text";

const FIELDS = ["input", "output", "cached_input", "total"] as const;
/** Tokens a price is for. */
export type Unit = "1k" | "1m";
/** What is priced. */
export type Field = (typeof FIELDS)[number];
/** A price with its rates as decimal texts. */
export type PriceRow = Pick<Shapes["Price"], "model" | "prefix" | "effective_from" | "origin" | "changed_at"> &
  Record<`${Field}_per_${Unit}`, string | null>;
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

/** The body of a PUT: the digits of the fields, never a number of JavaScript. */
export function priceBody(fields: PriceFields): string {
  const parts = FIELDS.flatMap((field) => {
    const digits = decimal(fields[field]);
    return digits === undefined ? [] : [`"${field}_per_${fields.unit}":${digits}`];
  });
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
