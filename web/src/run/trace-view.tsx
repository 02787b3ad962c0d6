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
  /** Another control. */
  beside?: ReactNode;
  /** Its details. */
  children: ReactNode;
};

/** Levels that can be chosen at most. */
const MAX_LEVELS = 6;
/** What is looked for goes into the address when the writer pauses. */
const PAUSE_MS = 200;

/** The trace. */
export function TraceView({ tree, readAtMs, chosen, onChoose, beside, children }: Props) {
  const { params, setView } = useView();
  const { tools, set } = useTools(params, setView);
  const { type, errors } = tools;
  const looked = useDeferredValue(tools.find);
  const filter: SpanFilter = useMemo(() => ({ text: looked.trim(), type, errors }), [looked, type, errors]);
  const level = Number(tools.level) || undefined;

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
  const list = useRef<HTMLDivElement>(null);
  useKeys(
    {
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
    },
    list,
  );

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
            value={tools.find}
            onChange={(event) => set({ find: event.target.value })}
          />
          {tree.types.length > 1 && (
            <select aria-label="Spans of type" value={type} onChange={(event) => set({ type: event.target.value })}>
              <option value="">All types</option>
              {tree.types.map((one) => (
                <option key={one}>{one}</option>
              ))}
            </select>
          )}
          <label className="line">
            <input type="checkbox" checked={errors} onChange={(event) => set({ errors: event.target.checked })} />
            Errors only
          </label>
          {tree.depth > 0 && (
            <select
              aria-label="Open down to level"
              value={tools.level}
              disabled={isFiltered}
              onChange={(event) => {
                setByHand(new Map());
                set({ level: event.target.value });
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
          {beside}
          <span className="soft small" role="status">
            {isFiltered ? `${count(matches)} of ${count(tree.places.length)} spans` : spansSaid(tree)}, {timeSaid(axis)}
          </span>
        </div>
        {early > 0 && (
          <p className="soft small" style={{ margin: 0 }}>
            <span className={styles.warn}>⇤</span>{" "}
            {early === 1 ? "1 span begins before its parent" : `${count(early)} spans begin before their parents`}, as
            clocks that differ make it. Times are shown as they were reported.
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
          scroller={list}
        />
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, and keys must be able to scroll it */}
      <section className={styles.panel} aria-label="Selected span" tabIndex={0}>
        {children}
      </section>
    </div>
  );
}

type Tools = { find: string; type: string; errors: boolean; level: string };

/**
 * What the controls say. It is kept here too: the address follows a moment later, and a control that waited for it would
 * jump back under the hand.
 */
function useTools(params: URLSearchParams, setView: ReturnType<typeof useView>["setView"]) {
  const [tools, setTools] = useState<Tools>(() => ({
    find: params.get("find") ?? "",
    type: params.get("span_type") ?? "",
    errors: params.get("errors") === "true",
    level: params.get("level") ?? "",
  }));
  const isFirst = useRef(true);
  const write = useRef(setView);
  write.current = setView;
  useEffect(() => {
    if (isFirst.current) {
      isFirst.current = false;
      return;
    }
    const { find, type, errors, level } = tools;
    const timer = setTimeout(
      () => write.current({ find, span_type: type, errors: errors ? "true" : undefined, level }),
      PAUSE_MS,
    );
    return () => clearTimeout(timer);
  }, [tools]);
  const set = (change: Partial<Tools>) => setTools((before) => ({ ...before, ...change }));
  return { tools, set };
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
