/** A row of a long table. It is painted again only when something of it changes: scrolling moves rows, no more. */

import { FlexRender, type RowData, type Row as TableRowModel } from "@tanstack/react-table";
import { memo } from "react";
import type { features } from "./columns";
import styles from "./data-table.module.css";

type Props<Row extends RowData> = {
  /** Names the element. */
  id: string;
  row: TableRowModel<typeof features, Row>;
  /** Its place among all rows. */
  index: number;
  /** Pixels from the top, and its height. */
  start: number;
  height: number;
  /** Tracks of the grid, and the least width of all. */
  tracks: string;
  minWidth: number;
  /** Which columns hold figures. */
  numbers: readonly boolean[];
  /** Changes with the columns. */
  columns: unknown;
  isAt: boolean;
  isMarked: boolean;
  /** The user clicked it; whether that opens it. */
  onPress: (row: Row, key: string, opens: boolean) => void;
};

function RowView<Row extends RowData>(props: Props<Row>) {
  const { row, index, start, height, tracks, minWidth, numbers, onPress } = props;
  return (
    <div
      id={props.id}
      role="row"
      aria-rowindex={index + 2}
      aria-selected={props.isAt}
      data-marked={props.isMarked || undefined}
      className={styles.row}
      style={{ gridTemplateColumns: tracks, minWidth, height, transform: `translateY(${start}px)` }}
      onClick={(event) => {
        const isControl = (event.target as Element).closest("a, button, input, label") !== null;
        onPress(row.original, row.id, !isControl && !window.getSelection()?.toString());
      }}
    >
      {row.getVisibleCells().map((cell, at) => (
        <div key={cell.id} role="gridcell" className={numbers[at] ? styles.figure : ""}>
          <FlexRender cell={cell} />
        </div>
      ))}
    </div>
  );
}

/** The model of a row is created at every scroll; its data is not. */
function isSame<Row extends RowData>(a: Props<Row>, b: Props<Row>): boolean {
  const names = Object.keys(a) as (keyof Props<Row>)[];
  return names.every((name) => (name === "row" ? a.row.original === b.row.original : a[name] === b[name]));
}

/** The row. */
export const TableRow = memo(RowView, isSame) as typeof RowView;
