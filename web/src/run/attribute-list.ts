/** Attributes of a span as a list. Pure. */

import { writeFilter } from "../filters/run-filter";
import { ExactNumber } from "../payload/exact-json";
import { textOf } from "../payload/fold";

/** A name and its value. */
export type Attribute = { name: string; value: unknown; isMetadata: boolean };

/** Longest value that is a filter: longer ones are texts of their own. */
const FILTER_CHARS = 200;

/** Metadata first, both in the order of their names. */
export function attributesOf(run: { metadata: object; fields: object }): Attribute[] {
  const listed = (values: object, isMetadata: boolean) =>
    Object.entries(values)
      .map(([name, value]) => ({ name, value, isMetadata }))
      .sort((a, b) => (a.name < b.name ? -1 : 1));
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

/** The address of the runs with this value; none for lists, objects and long texts. */
export function filterByAttribute(name: string, value: unknown, projectId: string | undefined): string | undefined {
  const isSingle = ["string", "number", "boolean"].includes(typeof value) || value instanceof ExactNumber;
  if (!isSingle) return undefined;
  const text = textOf(value);
  if (text === "" || text.length > FILTER_CHARS) return undefined;
  const filter = { metadata: { [name]: text }, ...(projectId ? { project_id: projectId } : {}) };
  return `/runs?${writeFilter(filter)}`;
}
