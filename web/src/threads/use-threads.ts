/** Threads and their messages, as the server has them. */

import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { api, ask, type Shapes } from "../api/client";
import type { RunFilter } from "../filters/run-filter";
import type { ThreadName } from "./thread-link";

/** A thread in the list. */
export type Thread = Shapes["Thread"];
/** A thread with its messages. */
export type ThreadDetail = Shapes["ThreadDetail"];
/** One message. */
export type Message = Shapes["ThreadMessage"];

/** Filters that threads have. */
export const THREAD_FILTERS = ["app_id", "agent", "user_email", "feedback", "from", "to"] as const;
/** Why a thread without a name is one. */
export const WINDOW =
  "These messages have no thread id: they have the same app, agent and user, and each follows the previous one by at most 30 minutes.";
const PAGE = 100;
/** How often a conversation is read again while it is visible, and a long one. */
const AGAIN_MS = 5_000;
const LONG_AGAIN_MS = 30_000;
const LONG = 1_000;
/** How often the list is, as long as it is short. */
const LIST_AGAIN_MS = 15_000;

/** The threads of a filter, that with the newest message first. */
export function useThreads(filter: RunFilter) {
  const query: Record<string, string> = {};
  for (const name of [...THREAD_FILTERS, "project_id"] as const) {
    const value = filter[name];
    if (value) query[name] = value;
  }
  return useInfiniteQuery({
    queryKey: ["threads", query],
    queryFn: ({ pageParam, signal }) => {
      const asked = { ...query, limit: PAGE, ...(pageParam ? { cursor: pageParam } : {}) };
      return ask(api.GET("/api/thread", { params: { query: asked }, signal }));
    },
    initialPageParam: "",
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    refetchInterval: (asked) => ((asked.state.data?.pages.length ?? 0) <= 1 ? LIST_AGAIN_MS : false),
  });
}

/** A thread with its messages, reloaded while it is visible. */
export function useThread({ thread_id, app_id, grouped_by, project_id }: ThreadName) {
  const query = {
    ...(app_id && { app_id }),
    ...(grouped_by && { grouped_by }),
    ...(project_id && { project_id }),
  };
  return useQuery({
    queryKey: ["thread", thread_id, query],
    queryFn: ({ signal }) =>
      ask(api.GET("/api/thread/{thread_id}", { params: { path: { thread_id }, query }, signal })),
    enabled: thread_id !== "",
    refetchInterval: (asked) => {
      if (asked.state.status === "error" && !asked.state.data) return false;
      return (asked.state.data?.messages.length ?? 0) > LONG ? LONG_AGAIN_MS : AGAIN_MS;
    },
  });
}
