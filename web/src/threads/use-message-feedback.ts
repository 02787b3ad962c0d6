/** Gives feedback on messages, each for itself, and shows it before the server does. */

import { useCallback, useState } from "react";
import type { Shapes } from "../api/client";
import type { Act, Rating } from "../runs/marks";
import { markOf, useMark } from "../runs/use-marks";

/** Feedback as it is shown. */
export type Feedback = Shapes["Feedback"];
/** Feedback that is being sent or failed. */
export type Sending = { act: Act; error?: Error };

/** The newer of two; what was just given here goes before what the server does not know yet. */
export function newer(known: Feedback | null | undefined, given: Feedback | undefined): Feedback | undefined {
  if (!given) return known ?? undefined;
  if (!known?.at) return given;
  return Date.parse(known.at) >= Date.parse(given.at ?? "") ? known : given;
}

type Where = { app_id: string; project_id?: string | undefined };

/** Sends feedback on the messages of a thread. `given` has the feedback of this visit by run, `sendings` what is not sent. */
export function useMessageFeedback({ app_id, project_id }: Where) {
  const [given, setGiven] = useState<ReadonlyMap<string, Feedback>>(new Map());
  const [sendings, setSendings] = useState<ReadonlyMap<string, Sending>>(new Map());
  const { mutateAsync } = useMark();
  const send = useCallback(
    async (act: Act, onSent?: () => void) => {
      const { run, mark, at } = act;
      const put = (sending: Sending) => setSendings((before) => new Map(before).set(run.run_id, sending));
      put({ act });
      try {
        await mutateAsync(act);
      } catch (error) {
        put({ act, error: error as Error });
        return;
      }
      setSendings((before) => new Map([...before].filter(([run_id]) => run_id !== run.run_id)));
      if (mark.kind === "feedback") setGiven((before) => new Map(before).set(run.run_id, { ...mark, at }));
      onSent?.();
    },
    [mutateAsync],
  );
  /** The feedback as it is sent, with retries. */
  const actOf = useCallback(
    (run_id: string, rating: Rating, comment: string) =>
      markOf({ run_id, app_id, project_id }, { kind: "feedback", rating, ...(comment ? { comment } : {}) }),
    [app_id, project_id],
  );
  return { given, sendings, send, actOf };
}
