/** The reports of usage, for a filter. */

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { api, ask, type Shapes } from "../api/client";
import type { By, Report } from "./series";
import type { Interval } from "./span";

/** The query of a filter, as the API takes it. */
export type Query = Record<string, string | string[]>;
/** Errors by reason. */
export type Failures = Shapes["Report_Failures"];

const PATHS = {
  model: "/api/analytics/usage/models",
  agent: "/api/analytics/usage/agents",
  user: "/api/analytics/usage/users",
  app: "/api/analytics/usage/apps",
} as const;

/** How often figures that end now are read again. */
export const AGAIN_MS = 60_000;

/** Figures by group, and with an interval over time. What was there stays until the new figures are. */
export function useUsage(by: By, query: Query, interval?: Interval | undefined, isWanted = true) {
  const asked = interval ? { ...query, interval } : query;
  return useQuery({
    queryKey: ["usage", by, asked],
    queryFn: ({ signal }): Promise<Report> =>
      // Values are checked by the server, which says what is wrong with them.
      ask(api.GET(PATHS[by], { params: { query: asked as object }, signal })),
    // Groups of one kind never replace groups of another.
    placeholderData: (before, asked) => (asked?.queryKey[1] === by ? before : undefined),
    enabled: isWanted,
  });
}

/** Errors by reason. */
export function useErrors(query: Query) {
  return useQuery({
    queryKey: ["usage", "errors", query],
    queryFn: ({ signal }): Promise<Failures> =>
      ask(api.GET("/api/analytics/usage/errors", { params: { query: query as object }, signal })),
    placeholderData: keepPreviousData,
  });
}
