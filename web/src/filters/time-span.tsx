/** The span of time a view is about: one that ends now, all of it, or from and to of one's own. */

import { useState } from "react";
import { RANGE_LABELS } from "./filter-chips";
import { milliseconds } from "./local-time";
import { RANGES, type Range } from "./run-filter";
import { TimeFields } from "./time-fields";
import type { RunView } from "./use-filter";

/** The control. */
export function TimeSpan({ view }: { view: RunView }) {
  const { filter, range, setRange, setView } = view;
  const [wantsOwn, setWantsOwn] = useState(false);
  const isOwn = wantsOwn || filter.from !== undefined || filter.to !== undefined;
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
        <TimeFields
          from={milliseconds(filter.from)}
          to={milliseconds(filter.to, true)}
          // One step, and none with both: a span that ends now has no other bounds.
          onChange={(from, to) => setView({ from, to, range: undefined })}
        />
      )}
    </>
  );
}
