/**
 * A long table: only the rows one sees are in the page. Rows are walked with j and k or the arrows and opened with
 * Enter; columns are sorted where the server sorts by them.
 */

import {
  type ColumnDef,
  columnVisibilityFeature,
  FlexRender,
  type RowData,
  tableFeatures,
  useTable,
} from "@tanstack/react-table";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, type Ref, useEffect, useImperativeHandle, useMemo, useRef, useState } from "react";
import { isForPage, type Keys, useKeys } from "../parts/keys";
import styles from "./data-table.module.css";
import { type TablePlace, useTablePlace } from "./table-place";

const features = tableFeatures({ columnVisibilityFeature });
/** Height of a row in pixels. */
const ROW_PX = 38;
/** Rows kept outside of what one sees, on each side: scrolling fast shows no gaps. */
const OVERSCAN = 12;
/** Rows before the end at which more are asked for. */
const NEAR_END = 30;
const NONE: string[] = [];

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

/** What a page may ask of its table. */
export type TableHandle = {
  /** Whether the first row is in sight. */
  isAtTop: () => boolean;
  /** Scrolls there. */
  toTop: () => void;
};

type Props<Row extends RowData> = {
  /** What the table is of, for those who do not see it. */
  label: string;
  columns: Column<Row>[];
  /** Ids of columns that are not shown. */
  hidden?: string[];
  rows: Row[];
  rowKey: (row: Row) => string;
  /** The sort in force. */
  sort?: string | undefined;
  onSort?: (sort: string) => void;
  /** Opens a row. */
  onOpen?: (row: Row) => void;
  /** More rows are wanted. */
  onEnd?: () => void;
  /** Rows in all, where that is known. */
  total?: number | undefined;
  /** Rows that are marked, by key. */
  marked?: ReadonlySet<string>;
  /** Whether it is only a part of its page: then its keys count while the focus is in it. */
  isPart?: boolean;
  /** Stands after the last row: that more are coming, or that something failed. */
  foot?: ReactNode;
  /** Keys that act on the row of the cursor. */
  rowKeys?: Record<string, (row: Row) => void>;
  /** Which place in the history this is, and of what: going back returns to the same row. */
  place?: TablePlace;
  handle?: Ref<TableHandle>;
  /** Height of a row in pixels, where it holds more than a line. */
  rowHeight?: number;
  /** Somebody walked to a row, or clicked it. */
  onCursor?: (row: Row) => void;
};

/** The table. It takes the height it is given. */
export function DataTable<Row extends RowData>(props: Props<Row>) {
  const { rows, columns, hidden = NONE, rowKey, rowHeight = ROW_PX } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const [cursor, setCursor] = useState<string>();
  useTablePlace(props.place, scroller, cursor, setCursor);
  const at = cursor === undefined ? -1 : rows.findIndex((row) => rowKey(row) === cursor);

  const definitions = useMemo(
    () =>
      columns.map(
        (column): ColumnDef<typeof features, Row> => ({
          id: column.id,
          header: column.title,
          cell: ({ row }) => column.cell(row.original),
        }),
      ),
    [columns],
  );
  const columnVisibility = useMemo(() => Object.fromEntries(hidden.map((id) => [id, false])), [hidden]);
  const table = useTable({
    features,
    data: rows,
    getRowId: rowKey,
    columns: definitions,
    state: { columnVisibility },
  });
  const model = table.getRowModel().rows;

  const virtual = useVirtualizer({
    count: model.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowHeight,
    overscan: OVERSCAN,
    getItemKey: (index) => model[index]?.id ?? index,
  });
  const items = virtual.getVirtualItems();
  const lastSeen = items.at(-1)?.index ?? -1;
  const { onEnd } = props;
  useEffect(() => {
    if (onEnd && lastSeen >= rows.length - NEAR_END) onEnd();
  }, [onEnd, lastSeen, rows.length]);

  const go = (to: number) => {
    const index = Math.max(0, Math.min(rows.length - 1, to));
    const row = rows[index];
    if (!row) return;
    setCursor(rowKey(row));
    props.onCursor?.(row);
    virtual.scrollToIndex(index, { align: "auto" });
  };
  const open = () => {
    const row = rows[at];
    if (row) props.onOpen?.(row);
  };
  const below = () => go(at + 1);
  const above = () => go(at - 1);
  useImperativeHandle(props.handle, () => ({
    isAtTop: () => (scroller.current?.scrollTop ?? 0) < ROW_PX,
    toTop: () => scroller.current?.scrollTo({ top: 0 }),
  }));
  const ofCursor = Object.entries(props.rowKeys ?? {}).map(([key, act]) => [
    key,
    () => {
      const row = rows[at];
      if (row) act(row);
    },
  ]);
  const keys: Keys = {
    ...Object.fromEntries(ofCursor),
    Escape: () => setCursor(undefined),
    j: below,
    k: above,
    ArrowDown: below,
    ArrowUp: above,
    Home: () => go(0),
    End: () => go(rows.length - 1),
    Enter: open,
  };
  useKeys(props.isPart ? {} : keys);

  const shown = columns.filter((column) => !hidden.includes(column.id));
  // Head and rows are grids of their own: they are equally wide only where the width does not come from what is in them.
  const minWidth = shown.reduce((sum, column) => sum + leastWidth(column.width), 0);
  const tracks = { gridTemplateColumns: shown.map((column) => column.width).join(" "), minWidth };
  return (
    <div
      ref={scroller}
      className={styles.scroller}
      role="grid"
      aria-label={props.label}
      aria-rowcount={(props.total ?? rows.length) + 1}
      aria-colcount={shown.length}
      tabIndex={0}
      onKeyDown={(event) => {
        const act = props.isPart ? keys[event.key] : undefined;
        if (!act || !isForPage(event.nativeEvent)) return;
        event.preventDefault();
        act(event.nativeEvent);
      }}
    >
      {table.getHeaderGroups().map((group) => (
        <div key={group.id} role="row" aria-rowindex={1} className={styles.head} style={tracks}>
          {group.headers.map((header) => {
            const column = shown.find((one) => one.id === header.column.id);
            return (
              <div
                key={header.id}
                role="columnheader"
                className={column?.isNumber ? styles.figure : ""}
                aria-sort={ariaSort(column?.sort, props.sort)}
              >
                {column?.sort && props.onSort ? (
                  <SortButton column={column} sort={props.sort} onSort={props.onSort} />
                ) : (
                  <FlexRender header={header} />
                )}
              </div>
            );
          })}
        </div>
      ))}
      <div role="rowgroup" className={styles.body} style={{ height: virtual.getTotalSize(), minWidth }}>
        {items.map((item) => {
          const row = model[item.index];
          if (!row) return null;
          const isAt = item.index === at;
          return (
            <div
              key={row.id}
              role="row"
              aria-rowindex={item.index + 2}
              aria-selected={isAt}
              data-marked={props.marked?.has(row.id) || undefined}
              className={styles.row}
              style={{ ...tracks, height: rowHeight, transform: `translateY(${item.start}px)` }}
              onClick={(event) => {
                setCursor(row.id);
                props.onCursor?.(row.original);
                if ((event.target as Element).closest("a, button, input, label")) return;
                if (window.getSelection()?.toString()) return;
                props.onOpen?.(row.original);
              }}
            >
              {row.getVisibleCells().map((cell, index) => (
                <div key={cell.id} role="gridcell" className={shown[index]?.isNumber ? styles.figure : ""}>
                  <FlexRender cell={cell} />
                </div>
              ))}
            </div>
          );
        })}
      </div>
      {props.foot}
    </div>
  );
}

/** The least pixels of a track, such as 140 of `minmax(140px, 2fr)`. */
function leastWidth(track: string): number {
  return Number(/(\d+(?:\.\d+)?)px/.exec(track)?.[1] ?? 80);
}

function ariaSort(column: string | undefined, sort: string | undefined) {
  if (!column || !sort || sort.replace("-", "") !== column.replace("-", "")) return undefined;
  return sort.startsWith("-") ? "descending" : "ascending";
}

type SortProps<Row> = { column: Column<Row>; sort: string | undefined; onSort: (sort: string) => void };

function SortButton<Row>({ column, sort, onSort }: SortProps<Row>) {
  const order = ariaSort(column.sort, sort);
  return (
    <button type="button" className={styles.sort} onClick={() => column.sort && onSort(column.sort)}>
      {column.title}
      <span aria-hidden="true">{order === "descending" ? "▼" : order === "ascending" ? "▲" : "↕"}</span>
    </button>
  );
}
