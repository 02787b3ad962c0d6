/** What is chosen on a page, in its address. Choosing is no step in the history: back leads to the page before. */

import { useCallback } from "react";
import { useLocation, useSearchParams } from "react-router";

/** The parameters, and how some are set or (with nothing) removed. */
export function useView() {
  const [params, setParams] = useSearchParams();
  const { state } = useLocation();
  const setView = useCallback(
    (view: Record<string, string | undefined>) =>
      setParams(
        () => {
          // What was chosen a moment ago may be in the address and not yet in the page.
          const next = new URLSearchParams(window.location.search);
          for (const [name, value] of Object.entries(view)) {
            if (value) next.set(name, value);
            else next.delete(name);
          }
          return next;
        },
        { replace: true, state },
      ),
    [setParams, state],
  );
  return { params, setView };
}
