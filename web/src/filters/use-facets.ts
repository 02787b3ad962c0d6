/** The values one can filter by, with counts, from the server. */

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { api, ask, type Shapes } from "../api/client";

/** A value and how many runs have it. */
export type FacetValue = Shapes["FacetValue"];

/** Facets of this query, loaded on demand: counting a million runs is not free. */
export function useFacets(query: Record<string, string | string[]>, isWanted: boolean) {
  return useQuery({
    queryKey: ["facets", query],
    queryFn: ({ signal }) => ask(api.GET("/api/run/facets", { params: { query: query as object }, signal })),
    enabled: isWanted,
    staleTime: 30_000,
    placeholderData: keepPreviousData,
  });
}
