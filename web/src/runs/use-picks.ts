/** Two runs picked for comparison. */

import { useCallback, useState } from "react";
import { type Run, runKey } from "./use-runs";

/** Picks: a third one takes the place of the first. */
export function usePicks() {
  const [picks, setPicks] = useState<Run[]>([]);
  const toggle = useCallback((run: Run) => {
    setPicks((before) => {
      const rest = before.filter((one) => runKey(one) !== runKey(run));
      return rest.length < before.length ? rest : [...before, run].slice(-2);
    });
  }, []);
  const clear = useCallback(() => setPicks([]), []);
  return { picks, toggle, clear };
}

/** The address of the comparison; none for runs that cannot be compared. */
export function compareLink([a, b]: readonly Run[], project: string | undefined): string | undefined {
  if (!a || !b || a.project_id !== b.project_id) return undefined;
  const params = new URLSearchParams({ a: a.run_id, a_app: a.app_id, b: b.run_id, b_app: b.app_id });
  const of = a.project_id ?? project;
  if (of) params.set("project_id", of);
  return `/compare?${params}`;
}
