/** The span of time a view is about: one that ends now, all of it, or from and to of one's own. */

import { useState } from "react";
import { RANGE_LABELS } from "./filter-chips";
import { fromField, toField } from "./local-time";
import { RANGES, type Range, type RunFilter } from "./run-filter";
import type { RunView } from "./use-filter";

/** The control. */
export function TimeSpan({ view }: { view: RunView }) {
  const { filter, range, setFilter, setRange } = view;
  const [wantsOwn, setWantsOwn] = useState(false);
  const isOwn = wantsOwn || filter.from !== undefined || filter.to !== undefined;
  const set = (name: "from" | "to", field: string) => {
    const value = fromField(field);
    // An unfinished time is left alone until it is one.
    if (value === undefined && field !== "") return;
    setFilter(({ [name]: _, ...rest }: RunFilter) => (value === undefined ? rest : { ...rest, [name]: value }));
  };
  return (
    <>
      <label>
        Time
        <select
          value={isOwn ? "own" : (range ?? "all")}
          data-filled={isOwn || range !== undefined || undefined}
          onChange={(event) => {
            const chosen = event.target.value;
            setWantsOwn(chosen === "own");
            if (chosen !== "own") setRange(chosen === "all" ? undefined : (chosen as Range));
          }}
        >
          <option value="all">All time</option>
          {(Object.keys(RANGES) as Range[]).map((one) => (
            <option key={one} value={one}>
              {RANGE_LABELS[one]}
            </option>
          ))}
          <option value="own">From … to …</option>
        </select>
      </label>
      {isOwn && (
        <>
          <label>
            From
            <input
              type="datetime-local"
              step="1"
              key={`from ${filter.from}`}
              defaultValue={toField(filter.from)}
              onBlur={(event) => event.target.value !== toField(filter.from) && set("from", event.target.value)}
              onKeyDown={(event) => event.key === "Enter" && set("from", event.currentTarget.value)}
            />
          </label>
          <label>
            To
            <input
              type="datetime-local"
              step="1"
              key={`to ${filter.to}`}
              defaultValue={toField(filter.to)}
              onBlur={(event) => event.target.value !== toField(filter.to) && set("to", event.target.value)}
              onKeyDown={(event) => event.key === "Enter" && set("to", event.currentTarget.value)}
            />
          </label>
        </>
      )}
    </>
  );
}
