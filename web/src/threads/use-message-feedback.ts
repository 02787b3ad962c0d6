/** Gives feedback on a message, and shows it before the server does. */

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useCallback, useState } from "react";
import { api, ask, type Shapes } from "../api/client";

/** Feedback as it is shown. */
export type Feedback = Shapes["Feedback"];
/** What somebody thinks of an answer. */
export type Rating = "positive" | "negative";
/** What is sent: with an identity of its own, so that sending it again changes nothing. */
export type Given = { run_id: string; rating: Rating; comment: string; event_id: string; timestamp: string };

/** A judgement, as it will be sent however often it takes. */
export function judgement(run_id: string, rating: Rating, comment: string): Given {
  const random = crypto.getRandomValues(new Uint8Array(16));
  const event_id = `ui-${Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
  return { run_id, rating, comment, event_id, timestamp: new Date().toISOString() };
}

/** The newer of two; what was just given here goes before what the server does not know yet. */
export function newer(known: Feedback | null | undefined, given: Feedback | undefined): Feedback | undefined {
  if (!given) return known ?? undefined;
  if (!known?.at) return given;
  return Date.parse(known.at) >= Date.parse(given.at ?? "") ? known : given;
}

type Where = { app_id: string; project_id?: string | undefined };

/** Sends judgements on the messages of a thread. `given` has those of this visit by run. */
export function useMessageFeedback({ app_id, project_id }: Where) {
  const cache = useQueryClient();
  const [given, setGiven] = useState<ReadonlyMap<string, Feedback>>(new Map());
  const mutation = useMutation({
    mutationFn: ({ run_id, rating, comment, event_id, timestamp }: Given) =>
      ask(
        api.POST("/api/run/{run_id}/feedback", {
          params: { path: { run_id }, query: { app_id, ...(project_id && { project_id }) } },
          body: { rating, comment: comment || null, event_id, timestamp },
        }),
      ),
    onSuccess: (_answer, { run_id, rating, comment, timestamp }) => {
      setGiven((before) => new Map(before).set(run_id, { rating, comment: comment || null, at: timestamp }));
      void cache.invalidateQueries({ queryKey: ["threads"] });
    },
  });
  const { mutate } = mutation;
  const send = useCallback((one: Given, onSent?: () => void) => mutate(one, onSent && { onSuccess: onSent }), [mutate]);
  return { given, send, pending: mutation.isPending ? mutation.variables.run_id : undefined, mutation };
}
