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
