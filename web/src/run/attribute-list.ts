/** Attributes of a span as a list. Pure. */

import { writeFilter } from "../filters/run-filter";
import { ExactNumber } from "../payload/exact-json";
import { textOf, utf8Bytes } from "../payload/fold";

/** A name and its value. */
export type Attribute = { name: string; value: unknown; isMetadata: boolean; canFilter: boolean };

/** What the server keeps of a run's metadata for filters: so many keys, the first by name, and so many bytes of a value. */
const FILTER_KEYS = 64;
const FILTER_BYTES = 512;

/** Metadata first, both in the order of their names. */
export function attributesOf(run: { metadata: object; fields: object }): Attribute[] {
  const listed = (values: object, isMetadata: boolean) =>
    Object.entries(values)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, value], index) => ({ name, value, isMetadata, canFilter: isMetadata && index < FILTER_KEYS }));
  return [...listed(run.metadata, true), ...listed(run.fields, false)];
}

/** The attributes whose name or value contains the text, in any case. */
export function matching(all: Attribute[], text: string): Attribute[] {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return all;
  return all.filter(
    ({ name, value }) => name.toLowerCase().includes(wanted) || textOf(value).toLowerCase().includes(wanted),
  );
}

/**
 * The address of the runs with this value; none for lists, objects, long texts and numbers that the client may have
 * written in another way.
 */
export function filterByAttribute(name: string, value: unknown, projectId: string | undefined): string | undefined {
  const isSingle =
    ["string", "boolean", "bigint"].includes(typeof value) ||
    Number.isSafeInteger(value) ||
    value instanceof ExactNumber;
  if (!isSingle) return undefined;
  const text = typeof value === "bigint" ? value.toString() : textOf(value);
  if (text === "" || utf8Bytes(text) > FILTER_BYTES) return undefined;
  const filter = { metadata: { [name]: text }, ...(projectId ? { project_id: projectId } : {}) };
  return `/runs?${writeFilter(filter)}`;
}
