/** What was asked of the server is kept here while it is looked at. A session that ended shows the sign-in page. */

import { MutationCache, QueryCache, QueryClient } from "@tanstack/react-query";
import { ApiFault } from "./client";

/** The key of the session in the cache. */
export const SESSION = ["session"] as const;

function noticeEndOfSession(error: unknown) {
  if (error instanceof ApiFault && error.status === 401) queryClient.setQueryData(SESSION, null);
}

/** How often is asked again: for some minutes while the server is away, and a few times when it failed. */
function tries(error: ApiFault): number {
  return error.status === 0 || error.status === 503 ? 100 : 3;
}

export const queryClient = new QueryClient({
  queryCache: new QueryCache({ onError: noticeEndOfSession }),
  mutationCache: new MutationCache({ onError: noticeEndOfSession }),
  defaultOptions: {
    queries: {
      // What cannot pass is said at once; a server that restarts is waited for, and `shell/away.tsx` says so meanwhile.
      retry: (count, error) => error instanceof ApiFault && error.isPassing && count < tries(error),
      retryDelay: (count) => Math.min(500 * 2 ** count, 3_000),
      staleTime: 5_000,
      refetchOnWindowFocus: false,
    },
  },
});
