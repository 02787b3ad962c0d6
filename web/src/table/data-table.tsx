/**
 * A long table: only the rows one sees are in the page. Rows are walked with j and k or the arrows and opened with
 * Enter; columns are sorted where the server sorts by them.
 */

import { FlexRender, type RowData, useTable } from "@tanstack/react-table";
import { useVirtualizer } from "@tanstack/react-virtual";
import {
  type ReactNode,
  type Ref,
  useCallback,
  useEffect,
  useId,
  useImperativeHandle,
  useMemo,
  useRef,
  useState,
} from "react";
import { isForPage, type Keys, useKeys } from "../parts/keys";
import { ariaSort, type Column, definitions, features, leastWidth } from "./columns";
import styles from "./data-table.module.css";
import { type TablePlace, topOf, useTablePlace } from "./table-place";
import { TableRow } from "./table-row";

export type { Column } from "./columns";

/** Height of a row in pixels. */
const ROW_PX = 38;
/** Rows kept outside of what one sees, on each side: scrolling fast shows no gaps. */
const OVERSCAN = 12;
/** Rows before the end at which more are asked for. */
const NEAR_END = 30;
const NONE: string[] = [];

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
  /** The user moved to a row, or clicked it. */
  onCursor?: (row: Row) => void;
};

/** The table. It takes the height it is given. */
export function DataTable<Row extends RowData>(props: Props<Row>) {
  const { rows, columns, hidden = NONE, rowKey, rowHeight = ROW_PX } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const [cursor, setCursor] = useState<string>();
  const at = useMemo(
    () => (cursor === undefined ? -1 : rows.findIndex((row) => rowKey(row) === cursor)),
    [rows, rowKey, cursor],
  );
  // Without keys of its own for the items: rows have theirs, and to name a hundred thousand takes too long.
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowHeight,
    overscan: OVERSCAN,
    initialOffset: () => topOf(props.place),
  });
  // After the list, which begins at its top.
  useTablePlace(props.place, scroller, cursor, setCursor);
  const items = virtual.getVirtualItems();
  const firstSeen = items[0]?.index ?? 0;
  const lastSeen = items.at(-1)?.index ?? -1;
  // The table knows the rows one sees: to model all of them at each page that comes would be felt.
  const seen = useMemo(() => rows.slice(firstSeen, lastSeen + 1), [rows, firstSeen, lastSeen]);
  const defined = useMemo(() => definitions(columns), [columns]);
  const columnVisibility = useMemo(() => Object.fromEntries(hidden.map((id) => [id, false])), [hidden]);
  const table = useTable({
    features,
    data: seen,
    getRowId: rowKey,
    columns: defined,
    state: { columnVisibility },
  });
  const model = table.getRowModel().rows;
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
  useKeys(props.isPart ? {} : keys, scroller);

  const id = useId();
  const rowId = (index: number) => `${id}-${index}`;
  const latest = useRef(props);
  latest.current = props;
  const press = useCallback((row: Row, key: string, opens: boolean) => {
    setCursor(key);
    latest.current.onCursor?.(row);
    if (opens) latest.current.onOpen?.(row);
  }, []);

  const shown = useMemo(() => columns.filter((column) => !hidden.includes(column.id)), [columns, hidden]);
  const numbers = useMemo(() => shown.map((column) => column.isNumber === true), [shown]);
  // Head and rows are grids of their own: they are equally wide only where the width does not come from what is in them.
  const minWidth = shown.reduce((sum, column) => sum + leastWidth(column.width), 0);
  const tracks = shown.map((column) => column.width).join(" ");
  return (
    <div
      ref={scroller}
      className={styles.scroller}
      role="grid"
      aria-label={props.label}
      aria-rowcount={(props.total ?? rows.length) + 1}
      aria-colcount={shown.length}
      aria-activedescendant={items.some((item) => item.index === at) ? rowId(at) : undefined}
      tabIndex={0}
      onKeyDown={(event) => {
        const act = props.isPart ? keys[event.key] : undefined;
        if (!act || !isForPage(event.nativeEvent)) return;
        event.preventDefault();
        act(event.nativeEvent);
      }}
    >
      {table.getHeaderGroups().map((group) => (
        <div
          key={group.id}
          role="row"
          aria-rowindex={1}
          className={styles.head}
          style={{ gridTemplateColumns: tracks, minWidth }}
        >
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
          const row = model[item.index - firstSeen];
          if (!row) return null;
          return (
            <TableRow
              key={row.id}
              id={rowId(item.index)}
              row={row}
              index={item.index}
              start={item.start}
              height={rowHeight}
              tracks={tracks}
              minWidth={minWidth}
              numbers={numbers}
              columns={defined}
              isAt={item.index === at}
              isMarked={props.marked?.has(row.id) ?? false}
              onPress={press}
            />
          );
        })}
      </div>
      {props.foot}
    </div>
  );
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
