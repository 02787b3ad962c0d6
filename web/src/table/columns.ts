/** What the columns of a long table are. */

import { type ColumnDef, columnVisibilityFeature, type RowData, tableFeatures } from "@tanstack/react-table";
import type { ReactNode } from "react";

/** What is used of the table library. */
export const features = tableFeatures({ columnVisibilityFeature });

/** A column. */
export type Column<Row> = {
  /** Names it, in addresses too. */
  id: string;
  /** Its head. */
  title: string;
  /** Its cell. */
  cell: (row: Row) => ReactNode;
  /** A track of CSS grid, such as `minmax(140px, 2fr)`. */
  width: string;
  /** What the server calls sorting by it, such as `-latency_s`. */
  sort?: string;
  /** Whether it is a figure, which stands at the right. */
  isNumber?: boolean;
};

/** The columns as the library wants them. */
export function definitions<Row extends RowData>(columns: readonly Column<Row>[]): ColumnDef<typeof features, Row>[] {
  return columns.map((column) => ({
    id: column.id,
    header: column.title,
    cell: ({ row }) => column.cell(row.original),
  }));
}

/** The least pixels of a track, such as 140 of `minmax(140px, 2fr)`. */
export function leastWidth(track: string): number {
  return Number(/(\d+(?:\.\d+)?)px/.exec(track)?.[1] ?? 80);
}

/** How a column is sorted, for those who do not see the arrow. */
export function ariaSort(column: string | undefined, sort: string | undefined) {
  if (!column || !sort || sort.replace("-", "") !== column.replace("-", "")) return undefined;
  return sort.startsWith("-") ? "descending" : "ascending";
}
