/** All filters of runs as controls, and the ones in force as chips. What it shows and changes is the address. */

import { useId, useState } from "react";
import { ApiFault } from "../api/client";
import { Choice } from "./choice";
import { Pick, TextField } from "./fields";
import styles from "./filter-bar.module.css";
import { filterChips, LABELS } from "./filter-chips";
import { MetadataField } from "./metadata-field";
import { DECLARED_SINGLE, type RunFilter, type Several, type Single, writeFilter } from "./run-filter";
import { Search } from "./search";
import { TimeSpan } from "./time-span";
import { useFacets } from "./use-facets";
import type { RunView } from "./use-filter";

type Props = {
  /** What `useRunFilter` gives. */
  view: RunView;
  /** Conditions of the page itself, such as `{ type: "llm" }`: they have no control. */
  fixed?: Partial<Record<Single, string>>;
  /** Whether the span of time has a control here; a page may have one of its own. */
  hasTime?: boolean;
  /** What the server said to the last question; bad values are said here. */
  fault?: unknown;
};

const FACETS: readonly Single[] = ["status", "type", "app_id", "model", "agent", "user_email", "name"];
/** Those that stand in the first row. */
const FIRST: readonly Single[] = ["status", "type", "app_id", "model", "agent"];
/** Those with a place of their own, or none: `has_parent` is the same as the level. */
const PLACED = new Set<Single>([...FACETS, "q", "from", "to", "feedback", "saved", "stale", "root", "has_parent"]);
const STATUSES = wordsOf("status");
const YES_NO = [
  ["", "any"],
  ["true", "yes"],
  ["false", "no"],
] as const;
const UNITS = { seconds: " (seconds)", dollars: " (USD)", count: "" };

/** The bar. */
export function FilterBar({ view, fixed = {}, hasTime = true, fault }: Props) {
  const { filter, query, setFilter } = view;
  const [isOpen, setOpen] = useState(false);
  const [isWanted, setWanted] = useState(false);
  const panel = useId();
  const facets = useFacets({ ...query, ...fixed }, isWanted);
  const note = facets.isPending ? "Loading values…" : facets.isError ? "The values could not be loaded." : undefined;

  const set = (name: Single) => (value: string) =>
    setFilter(({ [name]: _, ...rest }) => (value ? { ...rest, [name]: value } : rest));
  const setAll = (name: Several) => (values: string[]) =>
    setFilter(({ [name]: _, ...rest }) => (values.length > 0 ? { ...rest, [name]: values } : rest));
  const valuesOf = (name: string) => {
    const known = facets.data?.facets[name]?.values ?? [];
    if (name !== "status") return known;
    const counted = new Map(known.map((one) => [one.value, one]));
    return STATUSES.map((value) => counted.get(value) ?? { value });
  };
  const isFree = (name: Single) => !(name in fixed);
  const facet = (name: Single) => (
    <Choice
      key={name}
      label={LABELS[name as keyof typeof LABELS]}
      chosen={filter[name] === undefined ? [] : [filter[name]]}
      values={valuesOf(name)}
      note={name === "status" ? undefined : note}
      onWanted={() => setWanted(true)}
      onChange={([value]) => set(name)(value ?? "")}
    />
  );
  const tags = (name: Several, label: string) => (
    <Choice
      label={label}
      chosen={filter[name] ?? []}
      several
      values={valuesOf("tags")}
      note={note}
      onWanted={() => setWanted(true)}
      onChange={setAll(name)}
    />
  );
  const control = (declared: (typeof DECLARED_SINGLE)[number]) => {
    const { name, label, kind } = declared;
    const props = { label, value: filter[name] ?? "", onChange: set(name) };
    switch (kind) {
      case "flag":
        return <Pick key={name} {...props} choices={YES_NO} />;
      case "choice":
        return <Pick key={name} {...props} choices={[["", "any"], ...pairs(declared.words)]} />;
      case "seconds":
      case "dollars":
      case "count":
        return <TextField key={name} {...props} label={`${label}${UNITS[kind]}`} isFigure />;
      default:
        return <TextField key={name} {...props} />;
    }
  };
  const inPanel = Object.keys(filter).filter(
    (name) => !["q", "project_id", "from", "to", ...FIRST].includes(name as Single),
  ).length;

  return (
    <search className={styles.bar} aria-label="Filter">
      <div className={styles.first}>
        <Search view={view} />
        {hasTime && <TimeSpan view={view} />}
        <div className={styles.wide}>{FIRST.filter(isFree).map(facet)}</div>
        <button type="button" aria-expanded={isOpen} aria-controls={panel} onClick={() => setOpen(!isOpen)}>
          {isOpen ? "Fewer filters" : "More filters"}
          {inPanel > 0 && !isOpen && <span className="chip info">{inPanel}</span>}
        </button>
      </div>
      <div id={panel} className={styles.panel} hidden={!isOpen}>
        <div className={styles.narrow}>{isOpen && FIRST.filter(isFree).map(facet)}</div>
        {isOpen && (
          <>
            {FACETS.filter((name) => !FIRST.includes(name) && isFree(name)).map(facet)}
            {tags("tags", "Any of these tags")}
            {tags("tags_all", "All of these tags")}
            <Pick
              label="Feedback"
              value={filter.feedback ?? ""}
              choices={[["", "with or without"], ...pairs(wordsOf("feedback"))]}
              onChange={set("feedback")}
            />
            {isFree("saved") && (
              <Pick label="Saved" value={filter.saved ?? ""} choices={YES_NO} onChange={set("saved")} />
            )}
            <Pick label="Stale" value={filter.stale ?? ""} choices={YES_NO} onChange={set("stale")} />
            <Pick
              label="Level"
              value={filter.root ?? ""}
              choices={[
                ["", "roots and children"],
                ["true", "roots only"],
                ["false", "children only"],
              ]}
              onChange={set("root")}
            />
            {DECLARED_SINGLE.filter(({ name }) => !PLACED.has(name) && isFree(name)).map(control)}
            <MetadataField view={view} />
          </>
        )}
      </div>
      <FilterChips view={view} />
      {fault instanceof ApiFault && fault.status === 400 && (
        <p className="notice bad" role="alert">
          {fault.message}
        </p>
      )}
    </search>
  );
}

/** The words of a choice. */
function wordsOf(name: "status" | "feedback"): readonly string[] {
  return DECLARED_SINGLE.flatMap((declared) =>
    declared.name === name && declared.kind === "choice" ? [...declared.words] : [],
  );
}

function pairs(words: readonly string[]): [string, string][] {
  return words.map((word) => [word, word]);
}

/** The filter without anything but the project. */
export function cleared({ project_id }: RunFilter): RunFilter {
  return project_id === undefined ? {} : { project_id };
}

function FilterChips({ view }: { view: RunView }) {
  const { filter, range, params, setFilter, setRange, setAddress } = view;
  const chips = filterChips(filter, range);
  if (chips.length === 0) return null;
  return (
    <ul className={styles.chips} aria-label="Active filters">
      {chips.map((chip) => (
        <li key={chip.key} className={styles.chip}>
          <span className="soft">
            <bdi>{chip.label.slice(0, 60)}</bdi>:
          </span>
          <bdi className="clip">{chip.value.slice(0, 80)}</bdi>
          <button
            type="button"
            aria-label={`Remove the filter ${chip.label.slice(0, 60)}: ${chip.value.slice(0, 80)}`}
            onClick={() => (chip.isRange ? setRange(undefined) : setFilter(chip.without))}
          >
            <span aria-hidden="true">×</span>
          </button>
        </li>
      ))}
      <li>
        <button
          type="button"
          className="quiet"
          onClick={() => {
            const next = writeFilter(cleared(filter), params);
            next.delete("range");
            setAddress(next);
          }}
        >
          Clear all
        </button>
      </li>
    </ul>
  );
}
