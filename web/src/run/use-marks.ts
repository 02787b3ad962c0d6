/**
 * Feedback and saving on the page of a run. The server answers that it is durable; the run shows it a moment later. Until
 * then it is shown as given, and the run is asked for again.
 */

import { useCallback, useEffect, useState } from "react";
import type { Act } from "../runs/marks";
import { useMark } from "../runs/use-marks";
import type { RunDetail } from "./use-run";

/** How long it is looked for. */
const AWAIT_MS = 60_000;

/** What was given and not yet seen, and how to give. */
export function useMarks() {
  const [given, setGiven] = useState<Act[]>([]);
  const [saved, setSaved] = useState<boolean>();
  const [isLate, setIsLate] = useState(false);
  const feedback = useMark((act) => setGiven((before) => [...before, act]));
  const save = useMark();
  const { mutate } = save;
  const sendSave = useCallback(
    (act: Act) => {
      setSaved(act.mark.kind === "save");
      mutate(act, { onError: () => setSaved(undefined) });
    },
    [mutate],
  );

  const isOpen = given.length > 0 || saved !== undefined;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the time counts from what was given last
  useEffect(() => {
    setIsLate(false);
    if (!isOpen) return;
    const timer = setTimeout(() => setIsLate(true), AWAIT_MS);
    return () => clearTimeout(timer);
  }, [isOpen, given.length, saved]);

  /** Takes what the run shows by now off the list. */
  const settle = useCallback((run: RunDetail) => {
    setGiven((before) => {
      const left = before.filter((one) => !isShown(run, one));
      return left.length === before.length ? before : left;
    });
    setSaved((before) => (before === run.saved ? undefined : before));
  }, []);

  return { given, saved, feedback, save, sendSave, isAwaiting: isOpen && !isLate, isLate: isOpen && isLate, settle };
}

/** What a run has of marks that are on their way. */
export type Marks = ReturnType<typeof useMarks>;

function isShown(run: RunDetail, { mark, at }: Act): boolean {
  const time = Date.parse(at);
  return run.feedback_history.some(
    (each) => mark.kind === "feedback" && each.rating === mark.rating && Date.parse(each.at ?? "") === time,
  );
}
