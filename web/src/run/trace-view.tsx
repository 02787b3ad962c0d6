/** The whole trace: what is looked for, how deep it is open, which time is on the axis, and the chosen span beside it. */

import { type ReactNode, useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import { count, duration } from "../format";
import { useKeys } from "../parts/keys";
import { type LineActions, SpanList } from "./span-list";
import { isLooking, linesOf, type Place, type SpanFilter, type Tree } from "./span-tree";
import { type Stretch, stretchOf, zoomOf } from "./time-scale";
import styles from "./trace.module.css";
import { useView } from "./use-view";

type Props = {
  tree: Tree;
  /** When the trace was read. */
  readAtMs: number;
  /** The span whose details are shown. */
  chosen: string;
  onChoose: (id: string) => void;
  /** Its details. */
  children: ReactNode;
};

/** Levels that can be chosen at most. */
const MAX_LEVELS = 6;
/** A text that is written goes into the address when the writer pauses. */
const PAUSE_MS = 300;

/** The trace. */
export function TraceView({ tree, readAtMs, chosen, onChoose, children }: Props) {
  const { params, setView } = useView();
  const [find, setFind] = useState(params.get("find") ?? "");
  const looked = useDeferredValue(find);
  useEffect(() => {
    const timer = setTimeout(() => {
      if ((params.get("find") ?? "") !== find) setView({ find });
    }, PAUSE_MS);
    return () => clearTimeout(timer);
  }, [find, params, setView]);

  const type = params.get("span_type") ?? "";
  const errors = params.get("errors") === "true";
  const filter: SpanFilter = useMemo(() => ({ text: looked.trim(), type, errors }), [looked, type, errors]);
  const level = Number(params.get("level") ?? 0) || undefined;

  const [byHand, setByHand] = useState<ReadonlyMap<string, boolean>>(new Map());
  const isOpen = useCallback(
    (place: Place) => byHand.get(place.span.run_id) ?? (level === undefined || place.depth + 1 < level),
    [byHand, level],
  );
  const { lines, matches } = useMemo(() => linesOf(tree, isOpen, filter), [tree, isOpen, filter]);

  const whole = useMemo(
    () =>
      stretchOf(
        tree.places.map((place) => place.span),
        readAtMs,
      ),
    [tree, readAtMs],
  );
  const zoomed = tree.places[tree.byId.get(params.get("zoom") ?? "") ?? -1]?.span;
  const axis = useMemo(() => (zoomed ? zoomOf(zoomed, whole) : whole), [zoomed, whole]);

  const [cursor, setCursor] = useState<string | undefined>(chosen);
  const actions: LineActions = useActions({
    choose: (id) => {
      setCursor(id);
      onChoose(id);
    },
    toggle: (id) => {
      const place = tree.places[tree.byId.get(id) ?? -1];
      if (place) setByHand((before) => new Map(before).set(id, !isOpen(place)));
    },
  });

  const at = lines.findIndex((line) => line.place.span.run_id === cursor);
  const go = (to: number) => {
    const line = lines[Math.max(0, Math.min(lines.length - 1, to))];
    if (line) setCursor(line.place.span.run_id);
  };
  const open = (wanted: boolean) => {
    const line = lines[at];
    if (!line) return;
    const hasChildren = line.place.end > line.position + 1;
    if (hasChildren && line.isOpen !== wanted && !isLooking(filter)) actions.toggle(line.place.span.run_id);
    else if (wanted) go(hasChildren ? at + 1 : at);
    else if (line.place.parent >= 0) go(lines.findIndex((one) => one.position === line.place.parent));
  };
  const below = () => go(at + 1);
  const above = () => go(at - 1);
  useKeys({
    j: below,
    k: above,
    ArrowDown: below,
    ArrowUp: above,
    ArrowRight: () => open(true),
    ArrowLeft: () => open(false),
    Home: () => go(0),
    End: () => go(lines.length - 1),
    Enter: () => cursor && onChoose(cursor),
    z: () => setView({ zoom: zoomed && zoomed.run_id === cursor ? undefined : cursor }),
  });

  const early = useMemo(() => tree.places.filter((place) => place.earlyMs > 0).length, [tree]);
  const isFiltered = isLooking(filter);
  return (
    <div className={styles.view}>
      <div className={styles.left} style={{ "--list-height": `${Math.max(4, lines.length + 2) * 30}px` } as object}>
        <div className={styles.tools}>
          <input
            type="search"
            aria-label="Find spans by text"
            placeholder="Find spans"
            value={find}
            onChange={(event) => setFind(event.target.value)}
          />
          {tree.types.length > 1 && (
            <select
              aria-label="Spans of type"
              value={type}
              onChange={(event) => setView({ span_type: event.target.value })}
            >
              <option value="">All types</option>
              {tree.types.map((one) => (
                <option key={one}>{one}</option>
              ))}
            </select>
          )}
          <label className="line">
            <input
              type="checkbox"
              checked={errors}
              onChange={(event) => setView({ errors: event.target.checked ? "true" : undefined })}
            />
            Errors only
          </label>
          {tree.depth > 0 && (
            <select
              aria-label="Open down to level"
              value={level ?? ""}
              disabled={isFiltered}
              onChange={(event) => {
                setByHand(new Map());
                setView({ level: event.target.value });
              }}
            >
              <option value="">All levels</option>
              {Array.from({ length: Math.min(tree.depth, MAX_LEVELS) }, (_, index) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: a level is its number
                <option key={index} value={index + 1}>
                  {index === 0 ? "1 level" : `${index + 1} levels`}
                </option>
              ))}
            </select>
          )}
          {zoomed && (
            <button type="button" onClick={() => setView({ zoom: undefined })}>
              Whole time
            </button>
          )}
          <span className="soft small" role="status">
            {isFiltered ? `${count(matches)} of ${count(tree.places.length)} spans` : spansSaid(tree)}, {timeSaid(axis)}
          </span>
        </div>
        {early > 0 && (
          <p className="soft small" style={{ margin: 0 }}>
            <span className={styles.warn}>⇤</span> {early === 1 ? "1 span begins" : `${count(early)} spans begin`}{" "}
            before the parent: the clocks of their computers differ. Times are shown as they were reported.
          </p>
        )}
        <SpanList
          tree={tree}
          lines={lines}
          whole={whole}
          axis={axis}
          cursor={cursor}
          chosen={chosen}
          actions={actions}
        />
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, and keys must be able to scroll it */}
      <section className={styles.panel} aria-label="Chosen span" tabIndex={0}>
        {children}
      </section>
    </div>
  );
}

function spansSaid(tree: Tree): string {
  return tree.places.length === 1 ? "1 span" : `${count(tree.places.length)} spans`;
}

function timeSaid(axis: Stretch): string {
  return duration((axis.to - axis.from) / 1000);
}

/** The same two functions at each rendering, which do what the newest ones do: lines are not drawn again for them. */
function useActions(actions: LineActions): LineActions {
  const latest = useRef(actions);
  latest.current = actions;
  return useMemo(
    () => ({
      choose: (id: string) => latest.current.choose(id),
      toggle: (id: string) => latest.current.toggle(id),
    }),
    [],
  );
}
