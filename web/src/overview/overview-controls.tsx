/** Which span, in which steps, by what; and what else is filtered. */

import type { ReactNode } from "react";
import type { Range, RunFilter } from "../filters/run-filter";
import { TimeFields } from "../parts/time-fields";
import type { By } from "./series";
import { type Interval, isPossible, type Span } from "./span";

/** The ranges one can choose. */
export const CHOICES: Partial<Record<Range, string>> = {
  "24h": "24 hours",
  "7d": "7 days",
  "30d": "30 days",
};
/** The range where the address names none. */
export const DEFAULT_RANGE: Range = "7d";

const BY: Record<By, string> = { model: "Model", agent: "Agent", user: "User", app: "App" };

/** The grouping in an address. */
export function readBy(params: URLSearchParams): By {
  const by = params.get("by");
  return by && Object.hasOwn(BY, by) ? (by as By) : "model";
}

type Props = {
  by: By;
  /** The range in force; none where times are given. */
  range: Range | undefined;
  span: Span;
  interval: Interval | undefined;
  onBy: (by: By) => void;
  onRange: (range: Range) => void;
  onInterval: (interval: Interval) => void;
  onTimes: (from: string | undefined, to: string | undefined) => void;
  onReset: () => void;
  children?: ReactNode;
};

/** The controls. */
export function OverviewControls(props: Props) {
  const { range, span, interval } = props;
  return (
    <div className="row" style={{ alignItems: "end" }}>
      <label>
        By
        <select value={props.by} onChange={(event) => props.onBy(event.target.value as By)}>
          {Object.entries(BY).map(([by, label]) => (
            <option key={by} value={by}>
              {label}
            </option>
          ))}
        </select>
      </label>
      <label>
        Range
        <select value={range ?? ""} onChange={(event) => props.onRange(event.target.value as Range)}>
          {!range && <option value="">Own</option>}
          {range && !(range in CHOICES) && <option value={range}>{range}</option>}
          {Object.entries(CHOICES).map(([choice, label]) => (
            <option key={choice} value={choice}>
              {label}
            </option>
          ))}
        </select>
      </label>
      <label>
        Steps
        <select value={interval ?? ""} onChange={(event) => props.onInterval(event.target.value as Interval)}>
          {!interval && <option value="">None fits</option>}
          <option value="hour" disabled={!isPossible(span, "hour")}>
            Hours
          </option>
          <option value="day" disabled={!isPossible(span, "day")}>
            Days
          </option>
        </select>
      </label>
      <TimeFields from={span.from} to={span.to} onChange={props.onTimes} />
      <button type="button" disabled={range !== undefined} onClick={props.onReset}>
        Reset times
      </button>
      {props.children}
    </div>
  );
}

const NAMES: Record<string, string> = { app_id: "app", user_email: "user", q: "text", tags_all: "all tags" };

/** What else is filtered, each with a button that takes it away. */
export function FilterChips({ filter, onChange }: { filter: RunFilter; onChange: (filter: RunFilter) => void }) {
  const { from: _from, to: _to, project_id: _project, metadata, ...rest } = filter;
  const chips = [
    ...Object.entries(rest).map(([name, value]) => ({
      name: NAMES[name] ?? name,
      value: Array.isArray(value) ? value.join(", ") : String(value),
      without: { ...filter, [name]: undefined } as RunFilter,
    })),
    ...Object.entries(metadata ?? {}).map(([key, value]) => ({
      name: key,
      value,
      without: { ...filter, metadata: Object.fromEntries(Object.entries(metadata ?? {}).filter(([k]) => k !== key)) },
    })),
  ];
  if (chips.length === 0) return null;
  return (
    <ul className="row" aria-label="Filters" style={{ margin: 0, padding: 0, listStyle: "none", gap: 6 }}>
      {chips.map(({ name, value, without }) => (
        <li key={name} style={{ minWidth: 0, maxWidth: "100%" }}>
          <button type="button" className="small" style={{ maxWidth: "100%" }} onClick={() => onChange(without)}>
            <span className="unseen">Remove the filter</span>
            <span className="soft">{name}:</span>
            <bdi className="clip">{value.slice(0, 200)}</bdi>
            <span aria-hidden="true">✕</span>
          </button>
        </li>
      ))}
    </ul>
  );
}
