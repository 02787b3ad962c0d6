/** The input a process is started with: a draft from its schema, and a key for starting once. Pure but for chance. */

import { ExactNumber, writeExact } from "../payload/exact-json";

type Schema = Record<string, unknown>;
/** Schemas that hold themselves end here. */
const DEPTH_MAX = 5;

function isSchema(value: unknown): value is Schema {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof ExactNumber);
}

function isNumber(value: unknown): boolean {
  return typeof value === "number" || typeof value === "bigint" || value instanceof ExactNumber;
}

/** What a reference inside the same document means. */
function resolved(schema: Schema, whole: Schema): Schema {
  const reference = schema.$ref;
  if (typeof reference !== "string" || !reference.startsWith("#")) return schema;
  let at: unknown = whole;
  for (const step of reference.split("/").slice(1)) {
    const name = step.replaceAll("~1", "/").replaceAll("~0", "~");
    at = isSchema(at) && Object.hasOwn(at, name) ? at[name] : undefined;
  }
  return isSchema(at) ? at : {};
}

/** A value that is a beginning: what the schema says by example, else something empty of the right type. */
export function draft(given: unknown, whole: unknown = given, depth = 0): unknown {
  if (!isSchema(given) || !isSchema(whole)) return null;
  const schema = resolved(given, whole);
  if ("default" in schema) return schema.default;
  if ("const" in schema) return schema.const;
  for (const list of [schema.enum, schema.examples]) if (Array.isArray(list) && list.length > 0) return list[0];
  for (const list of [schema.anyOf, schema.oneOf]) {
    if (Array.isArray(list) && list.length > 0 && depth < DEPTH_MAX) return draft(list[0], whole, depth + 1);
  }
  const parts = Array.isArray(schema.allOf) ? schema.allOf.filter(isSchema) : [];
  const all = [schema, ...parts.map((part) => resolved(part, whole))];
  const properties = all.flatMap((part) => (isSchema(part.properties) ? Object.entries(part.properties) : []));
  const types = all.flatMap((part) => part.type ?? []);
  switch (types[0] ?? (properties.length > 0 ? "object" : undefined)) {
    case "object":
      if (depth >= DEPTH_MAX) return {};
      return Object.fromEntries(properties.map(([name, inner]) => [name, draft(inner, whole, depth + 1)]));
    case "array":
      return [];
    case "string":
      return "";
    case "number":
    case "integer":
      return isNumber(schema.minimum) ? schema.minimum : 0;
    case "boolean":
      return false;
    default:
      return null;
  }
}

/** The text to begin with: always an object, as starts take nothing else. */
export function draftText(schema: unknown): string {
  const value = draft(schema);
  return writeExact(isSchema(value) ? value : {}, 2);
}

/** A place where an input does not conform to the schema. */
export type Violation = { path: string; message: string };

/** Those in the details of an answer. */
export function violations(details: unknown): Violation[] {
  const list = isSchema(details) ? details.violations : undefined;
  if (!Array.isArray(list)) return [];
  const text = (value: unknown) => (typeof value === "string" ? value : "");
  return list.filter(isSchema).map(({ path, message }) => ({ path: text(path), message: text(message) }));
}
