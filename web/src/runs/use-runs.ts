/** Pages of runs, as far as one has scrolled. */

import { useInfiniteQuery } from "@tanstack/react-query";
import { api, ask, type Shapes } from "../api/client";

/** A run in a list. */
export type Run = Shapes["Run"];
/** Runs asked for at once: a few screens. */
const PAGE = 100;

/** Runs of this filter and sort, page after page. `path` is the list they are read from. */
export function useRuns(query: Record<string, string | string[]>, path: "/api/run" | "/api/dataset" = "/api/run") {
  return useInfiniteQuery({
    queryKey: ["runs", path, query],
    queryFn: ({ pageParam, signal }) => {
      const asked = { ...query, limit: PAGE, ...(pageParam ? { cursor: pageParam } : {}) };
      // Values are checked by the server, which says what is wrong with them.
      return ask(api.GET(path, { params: { query: asked as object }, signal }));
    },
    initialPageParam: "",
    getNextPageParam: (page) => page.next_cursor ?? undefined,
  });
}
