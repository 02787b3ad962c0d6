/** A filter that lets nothing through: says so, and how to see more. */

import { cleared } from "../filters/filter-bar";
import { writeFilter } from "../filters/run-filter";
import { SEARCHED } from "../filters/search";
import type { RunView } from "../filters/use-filter";
import { Empty } from "../parts/notice";

/** The notice. */
export function NoMatch({ view, what = "runs" }: { view: RunView; what?: string }) {
  const { filter, range, params, setAddress, setView } = view;
  const hasTime = range !== undefined || filter.from !== undefined || filter.to !== undefined;
  return (
    <Empty title={`No ${what} match`}>
      <p className="soft">
        The filter excludes all {what}.{filter.q && ` Search covers ${SEARCHED}.`}
      </p>
      <div className="row">
        {hasTime && (
          <button type="button" onClick={() => setView({ range: undefined, from: undefined, to: undefined })}>
            Look at all time
          </button>
        )}
        <button
          type="button"
          className="primary"
          onClick={() => {
            const next = writeFilter(cleared(filter), params);
            next.delete("range");
            setAddress(next);
          }}
        >
          Clear filters
        </button>
      </div>
    </Empty>
  );
}
