/** The spans of a trace, a line each: the tree at the left, the bars at the right. Only lines one sees are in the page. */

import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, memo, type RefObject, useEffect, useMemo } from "react";
import { compact, dollars, duration } from "../format";
import { StatusMark } from "./span-mark";
import type { Line, Tree } from "./span-tree";
import { barOf, type Stretch, ticksOf } from "./time-scale";
import styles from "./trace.module.css";

/** Height of a line in pixels, in the style sheet too. */
const LINE_PX = 30;
const OVERSCAN = 12;
/** Indentation of a level, and the depth beyond which there is no more of it. */
const INDENT_PX = 14;
const MAX_INDENT = 16;
/** Marks on the axis. */
const TICKS = 4;
/** Where the last of them still has room for its label, in percent. */
const MAX_LABEL = 86;

/** What a line can do. */
export type LineActions = {
  choose: (id: string) => void;
  toggle: (id: string) => void;
};

type Props = {
  tree: Tree;
  lines: Line[];
  /** The whole trace, and the part of it on the axis. */
  whole: Stretch;
  axis: Stretch;
  /** The line that keys move, and the one whose details are shown. */
  cursor: string | undefined;
  chosen: string;
  actions: LineActions;
  /** The element that scrolls and has the focus. */
  scroller: RefObject<HTMLDivElement | null>;
};

/** The list. It takes the height it is given. */
export function SpanList({ tree, lines, whole, axis, cursor, chosen, actions, scroller }: Props) {
  const virtual = useVirtualizer({
    count: lines.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => LINE_PX,
    overscan: OVERSCAN,
    getItemKey: (index) => lines[index]?.place.span.run_id ?? index,
  });
  const at = useMemo(() => lines.findIndex((line) => line.place.span.run_id === cursor), [lines, cursor]);
  useEffect(() => {
    if (at >= 0) virtual.scrollToIndex(at, { align: "auto" });
  }, [at, virtual]);
  const ticks = useMemo(() => ticksOf(axis, whole.from, TICKS), [axis, whole]);
  const items = virtual.getVirtualItems();
  const isAtShown = items.some((item) => item.index === at);
  return (
    <div
      ref={scroller}
      className={styles.list}
      role="treegrid"
      aria-label="Spans of the trace"
      aria-rowcount={lines.length + 1}
      aria-activedescendant={isAtShown ? lineId(at) : undefined}
      tabIndex={0}
      onKeyDown={keepPageStill}
    >
      <div role="row" aria-rowindex={1} className={styles.listHead}>
        <div role="columnheader">Span</div>
        <div role="columnheader" className={styles.figure}>
          Tokens
        </div>
        <div role="columnheader" className={styles.figure}>
          Cost
        </div>
        <div role="columnheader" className={styles.figure}>
          Length
        </div>
        <div role="columnheader" className={styles.axis}>
          <span className="unseen">Time since the beginning of the trace</span>
          {ticks.map((tick) => (
            <span key={tick.label} className={styles.tick} style={{ left: `${tick.at}%` }}>
              {tick.at <= MAX_LABEL && tick.label}
            </span>
          ))}
        </div>
      </div>
      <div role="rowgroup" className={styles.listBody} style={{ height: virtual.getTotalSize() }}>
        {items.map((item) => {
          const line = lines[item.index];
          if (!line) return null;
          const { place } = line;
          return (
            <SpanLine
              key={item.key}
              index={item.index}
              top={item.start}
              line={line}
              hasChildren={place.end > line.position + 1}
              below={place.end - line.position - 1}
              isCursor={item.index === at}
              isChosen={place.span.run_id === chosen}
              axis={axis}
              whole={whole}
              actions={actions}
            />
          );
        })}
      </div>
      <div className={styles.grid} aria-hidden="true" style={{ height: virtual.getTotalSize() }}>
        <div className={styles.gridLines}>
          {ticks.map((tick) => (
            <span key={tick.label} style={{ left: `${tick.at}%` }} />
          ))}
        </div>
      </div>
      {lines.length === 0 && (
        <p className="soft" style={{ padding: 16 }} role="status">
          {tree.places.length === 0 ? "This trace has no spans." : "No span of this trace matches."}
        </p>
      )}
    </div>
  );
}

/** Arrows move the cursor, not the page; the page's own keys do the moving. */
function keepPageStill(event: KeyboardEvent) {
  if (event.key === " ") event.preventDefault();
}

function lineId(index: number): string {
  return `span-line-${index}`;
}

type LineProps = {
  index: number;
  top: number;
  line: Line;
  hasChildren: boolean;
  below: number;
  isCursor: boolean;
  isChosen: boolean;
  axis: Stretch;
  whole: Stretch;
  actions: LineActions;
};

const SpanLine = memo(function SpanLine(props: LineProps) {
  const { index, line, hasChildren, below, isCursor, isChosen, actions } = props;
  const { span, depth, isAdrift, earlyMs } = line.place;
  const name = span.name ?? span.run_id;
  return (
    <div
      id={lineId(index)}
      role="row"
      aria-rowindex={index + 2}
      aria-level={depth + 1}
      aria-expanded={hasChildren ? line.isOpen : undefined}
      aria-selected={isChosen}
      data-cursor={isCursor || undefined}
      data-dim={!line.isMatch || undefined}
      className={styles.line}
      style={{ transform: `translateY(${props.top}px)` }}
      onClick={() => actions.choose(span.run_id)}
    >
      <div role="gridcell" className={styles.name} style={{ paddingLeft: 6 + Math.min(depth, MAX_INDENT) * INDENT_PX }}>
        {hasChildren ? (
          <button
            type="button"
            tabIndex={-1}
            className={styles.toggle}
            aria-label={`${line.isOpen ? "Close" : "Open"} ${name.slice(0, 80)}`}
            onClick={(event) => {
              event.stopPropagation();
              actions.toggle(span.run_id);
            }}
          >
            <span aria-hidden="true">{line.isOpen ? "▾" : "▸"}</span>
          </button>
        ) : (
          <span className={styles.noToggle} />
        )}
        <StatusMark span={span} />
        <bdi className="clip">{name.slice(0, 200)}</bdi>
        {span.type && <span className={styles.type}>{span.type.slice(0, 40)}</span>}
        {hasChildren && !line.isOpen && <span className="soft small">+{compact(below)}</span>}
        {isAdrift && (
          <span className={styles.warn} title="The parent is not part of this trace">
            ⤷?<span className="unseen"> parent missing</span>
          </span>
        )}
        {earlyMs > 0 && (
          <span className={styles.warn} title={`Begins ${duration(earlyMs / 1000)} before its parent`}>
            ⇤<span className="unseen"> begins {duration(earlyMs / 1000)} before its parent</span>
          </span>
        )}
      </div>
      <div role="gridcell" className={styles.figure}>
        {span.total_tokens_with_children > 0 ? compact(span.total_tokens_with_children) : ""}
      </div>
      <div role="gridcell" className={styles.figure}>
        {span.total_cost > 0 ? dollars(span.total_cost) : ""}
      </div>
      <div role="gridcell" className={styles.length}>
        {span.latency_s == null ? (span.stale ? "no end" : "going") : duration(span.latency_s)}
      </div>
      <BarCell {...props} />
    </div>
  );
});

function BarCell({ line, axis, whole }: LineProps) {
  const { span } = line.place;
  const bar = barOf(span, axis, whole);
  if (!bar) {
    const isBefore = Date.parse(span.started_at) < axis.from;
    return (
      <div role="gridcell" className={styles.bars}>
        <span className={styles.outside} data-side={isBefore ? "left" : "right"}>
          {isBefore ? "◂" : "▸"}
          <span className="unseen">{isBefore ? "before" : "after"} the time shown</span>
        </span>
      </div>
    );
  }
  return (
    <div role="gridcell" className={styles.bars}>
      <span
        className={styles.bar}
        data-status={span.stale ? "stale" : span.status}
        data-open={bar.isOpen || undefined}
        data-cut-left={bar.cutLeft || undefined}
        data-cut-right={bar.cutRight || undefined}
        style={{ left: `${bar.left}%`, width: `${bar.width}%` }}
      />
    </div>
  );
}
