/** A filter that lets nothing through: says so, and how to see more. */

import { cleared } from "../filters/filter-bar";
import { writeFilter } from "../filters/run-filter";
import type { RunView } from "../filters/use-filter";
import { Empty } from "../parts/notice";

/** Characters of an input or output that search covers: `PREVIEW_CHARS` of the server. */
const SEARCHED_CHARS = 160;

/** The notice. */
export function NoMatch({ view, what = "runs" }: { view: RunView; what?: string }) {
  const { filter, range, params, setAddress, setView } = view;
  const hasTime = range !== undefined || filter.from !== undefined || filter.to !== undefined;
  return (
    <Empty title={`No ${what} match`}>
      <p className="soft">
        {filter.q
          ? `No run matches the filter. Search covers names, errors and the first ${SEARCHED_CHARS} characters of input and output.`
          : "No run matches the filter."}
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
