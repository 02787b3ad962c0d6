/** JSON as a tree that opens and closes. Closed parts, and entries beyond those shown, are not in the page. */

import { memo, useMemo, useState } from "react";
import { count } from "../format";
import { entriesOf, entriesShown, entryCount, FIRST_ENTRIES, openAtFirst, pathTo, STEP_ENTRIES } from "./fold";
import { FoldedText } from "./folded-text";
import styles from "./payload.module.css";

/** Characters of a value, and of a key, in a line. */
const VALUE_CHARS = 300;
const KEY_CHARS = 120;

/** The tree of a value, opened as far as it takes no more than so many lines. */
export function JsonTree({ value, lines }: { value: unknown; lines?: number }) {
  const [byHand, setByHand] = useState<ReadonlyMap<string, boolean>>(new Map());
  const first = useMemo(() => openAtFirst(value, lines), [value, lines]);
  const isOpen = (path: string) => byHand.get(path) ?? first.has(path);
  const toggle = (path: string) => setByHand((before) => new Map(before).set(path, !isOpen(path)));
  return (
    <ul className={styles.tree}>
      <Node name={null} value={value} path="" isOpen={isOpen} toggle={toggle} />
    </ul>
  );
}

type NodeProps = {
  name: string | null;
  value: unknown;
  path: string;
  isOpen: (path: string) => boolean;
  toggle: (path: string) => void;
};

/** Drawn again only when something opens: entries that are added leave those before them alone. */
const Node = memo(function Node({ name, value, path, isOpen, toggle }: NodeProps) {
  const entries = entryCount(value);
  const key = name === null ? null : <Key name={name} />;
  if (entries === undefined) {
    return (
      <li className={styles.leaf}>
        {key} <Value value={value} />
      </li>
    );
  }
  const [opening, closing] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  const what = Array.isArray(value) ? (entries === 1 ? "item" : "items") : entries === 1 ? "field" : "fields";
  if (entries === 0) {
    return (
      <li className={styles.leaf}>
        {key}{" "}
        <span className="soft">
          {opening}
          {closing}
        </span>
      </li>
    );
  }
  const open = isOpen(path);
  return (
    <li>
      <button type="button" className={styles.branch} aria-expanded={open} onClick={() => toggle(path)}>
        <span aria-hidden="true" className={styles.arrow}>
          {open ? "▾" : "▸"}
        </span>
        {key}
        <span className="soft">
          {opening}
          {open ? "" : `…${closing}`} {count(entries)} {what}
        </span>
      </button>
      {open && <Entries value={value as object} path={path} isOpen={isOpen} toggle={toggle} />}
    </li>
  );
});

type EntriesProps = Omit<NodeProps, "name" | "value"> & { value: object };

function Entries({ value, path, isOpen, toggle }: EntriesProps) {
  const [steps, setSteps] = useState(0);
  const entries = useMemo(() => entriesOf(value), [value]);
  const shown = entriesShown(entries.length, steps);
  return (
    <ul>
      {entries.slice(0, shown).map(([key, child]) => (
        <Node key={key} name={key} value={child} path={pathTo(path, key)} isOpen={isOpen} toggle={toggle} />
      ))}
      {entries.length > FIRST_ENTRIES && (
        <li className={styles.more}>
          {shown < entries.length && (
            <button type="button" onClick={() => setSteps(steps + 1)}>
              Show {count(Math.min(STEP_ENTRIES, entries.length - shown))} more
            </button>
          )}
          <span className="soft small">
            {count(shown)} of {count(entries.length)} shown
          </span>
        </li>
      )}
    </ul>
  );
}

function Key({ name }: { name: string }) {
  const text = name.length > KEY_CHARS ? `${name.slice(0, KEY_CHARS)}…` : name;
  return (
    <span className={styles.key}>
      <bdi>{text}</bdi>:
    </span>
  );
}

function Value({ value }: { value: unknown }) {
  if (typeof value !== "string") return <span className={styles.plain}>{String(value)}</span>;
  if (value.length <= VALUE_CHARS && !value.includes("\n")) {
    return (
      <span className={styles.string}>
        "<bdi>{value}</bdi>"
      </span>
    );
  }
  return <FoldedText text={value} first={VALUE_CHARS} isMono />;
}
