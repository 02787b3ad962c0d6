/**
 * Feedback and saving. The server answers that it is durable; the run shows it a moment later. Until then it is shown as
 * given, and the run is asked for again.
 */

import { useMutation } from "@tanstack/react-query";
import { useCallback, useEffect, useState } from "react";
import { api, ask } from "../api/client";
import { queryClient } from "../api/query-client";
import type { RunName } from "../runs/run-link";
import type { RunDetail } from "./use-run";

/** A judgement that was given here. Its identity and time are its own: sent again, it is the same. */
export type Given = { rating: "positive" | "negative"; comment: string; event_id: string; timestamp: string };

/** How long it is looked for. */
const AWAIT_MS = 60_000;

/** An identity nobody else has. (`randomUUID` is there only over HTTPS and on localhost.) */
export function freshId(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** What was given and not yet seen, and how to give. */
export function useMarks({ run_id, app_id, project_id }: RunName) {
  const [given, setGiven] = useState<Given[]>([]);
  const [saved, setSaved] = useState<boolean>();
  const [isLate, setIsLate] = useState(false);
  const params = {
    path: { run_id },
    query: { ...(app_id ? { app_id } : {}), ...(project_id ? { project_id } : {}) },
  };
  const feedback = useMutation({
    mutationFn: ({ comment, ...rest }: Given) =>
      ask(
        api.POST("/api/run/{run_id}/feedback", { params, body: { ...rest, ...(comment === "" ? {} : { comment }) } }),
      ),
    onSuccess: (_, one) => setGiven((before) => [...before, one]),
  });
  const save = useMutation({
    mutationFn: (wanted: boolean) =>
      ask(
        wanted
          ? api.POST("/api/run/{run_id}/save", { params, body: {} })
          : api.POST("/api/run/{run_id}/unsave", { params, body: {} }),
      ),
    onMutate: setSaved,
    onError: () => setSaved(undefined),
  });

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

  // Lists show it too.
  useEffect(() => {
    if (!isOpen) void queryClient.invalidateQueries({ queryKey: ["runs"], refetchType: "none" });
  }, [isOpen]);

  return { given, saved, feedback, save, isAwaiting: isOpen && !isLate, isLate: isOpen && isLate, settle };
}

/** What a run has of marks that are on their way. */
export type Marks = ReturnType<typeof useMarks>;

function isShown(run: RunDetail, one: Given): boolean {
  const at = Date.parse(one.timestamp);
  return run.feedback_history.some((each) => each.rating === one.rating && Date.parse(each.at ?? "") === at);
}
