/** The filter of the page one is on, which lives in its address. */

import { useCallback, useMemo } from "react";
import { useSearchParams } from "react-router";
import { apiQuery, type Range, type RunFilter, readFilter, readRange, writeFilter } from "./run-filter";

/** What a page knows of its filter, and how it changes it. */
export type RunView = ReturnType<typeof useRunFilter>;

/** What is in the address now: what was chosen a moment ago may be there, and not yet in the page. */
function addressNow(): URLSearchParams {
  return new URLSearchParams(window.location.search);
}

/** The filter, the range, the query for the server, and how to change them. A change is a step in the history. */
export function useRunFilter() {
  const [params, setParams] = useSearchParams();
  const address = params.toString();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the parameters are a new object at each rendering
  const filter = useMemo(() => readFilter(params), [address]);
  const range = readRange(params);
  // A range is counted from when the address was opened.
  const query = useMemo(() => apiQuery(filter, range, Date.now()), [filter, range]);
  const setFilter = useCallback(
    (change: (filter: RunFilter) => RunFilter, step: { replace?: boolean } = {}) =>
      setParams(() => writeFilter(change(readFilter(addressNow())), addressNow()), { replace: step.replace ?? false }),
    [setParams],
  );
  /** Sets or (with nothing) removes other parts of the view, such as `sort`. */
  const setView = useCallback(
    (view: Record<string, string | undefined>, step: { replace?: boolean } = {}) =>
      setParams(() => {
        const next = addressNow();
        for (const [name, value] of Object.entries(view)) {
          if (value) next.set(name, value);
          else next.delete(name);
        }
        return next;
      }, step),
    [setParams],
  );
  const setRange = useCallback(
    (chosen: Range | undefined) => setView({ range: chosen, from: undefined, to: undefined }),
    [setView],
  );
  /** Replaces all that is in the address, as for a saved view. */
  const setAddress = useCallback((next: URLSearchParams) => setParams(next), [setParams]);
  return { params, filter, range, query, setFilter, setRange, setView, setAddress };
}
