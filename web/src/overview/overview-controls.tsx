/** Which span, in which steps, by what. */

import type { Range } from "../filters/run-filter";
import { TimeFields } from "../filters/time-fields";
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
  /** What was chosen of the span, which stays while a span that ends now moves on. */
  choice: string;
  interval: Interval | undefined;
  onBy: (by: By) => void;
  onRange: (range: Range) => void;
  onInterval: (interval: Interval) => void;
  onTimes: (from: string | undefined, to: string | undefined) => void;
  onReset: () => void;
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
      <TimeFields from={span.from} to={span.to} choice={props.choice} onChange={props.onTimes} />
      <button type="button" disabled={range !== undefined} onClick={props.onReset}>
        Reset times
      </button>
    </div>
  );
}
