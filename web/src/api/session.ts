/** Who is signed in and what they may do. The server decides; here it is only shown or left out. */

import { useMutation, useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { ApiFault, api, ask, type Shapes } from "./client";
import { queryClient, SESSION } from "./query-client";

/** Who is signed in. */
export type Session = Shapes["Who"];
/** Roles of a user. */
export type Role = "viewer" | "starter" | "operator" | "admin";

async function current(): Promise<Session | null> {
  try {
    return await ask(api.GET("/api/session"));
  } catch (error) {
    if (error instanceof ApiFault && error.status === 401) return null;
    throw error;
  }
}

/** The session; `data` is `null` without a signed-in user. */
export function useSession() {
  return useQuery({ queryKey: SESSION, queryFn: current, staleTime: 60_000, refetchOnWindowFocus: true });
}

/** Longest time that a browser's timer takes, in milliseconds; longer than any visit. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Forgets what was read when the session ends by its time, on a page that asks for nothing too. */
export function useEndOfSession(session: Session) {
  const ends = session.expires_at;
  useEffect(() => {
    if (!ends) return;
    const left = new Date(ends).getTime() - Date.now();
    const timer = setTimeout(() => become(null), Math.min(Math.max(left, 0), LONGEST_TIMER_MS));
    return () => clearTimeout(timer);
  }, [ends]);
}

/** Whether the user has this role. */
export function hasRole(session: Session | null | undefined, role: Role): boolean {
  return session?.roles.includes(role) ?? false;
}

/** Whether the signed-in user has this role. */
export function useRole(role: Role): boolean {
  return hasRole(useSession().data, role);
}

/** Switches to this user. Data that another user read is dropped. */
function become(session: Session | null) {
  queryClient.removeQueries({ predicate: (query) => query.queryKey[0] !== SESSION[0] });
  queryClient.setQueryData(SESSION, session);
}

/** Signs in with a token, which is forgotten here at once. */
export function useSignIn() {
  return useMutation({
    mutationFn: (token: string) => ask(api.POST("/api/session", { body: { token } })),
    onSuccess: (session) => become(session),
    gcTime: 0,
  });
}

/** Signs out: the session ends on the server, and nothing that was read stays here. */
export function useSignOut() {
  return useMutation({
    mutationFn: () => ask(api.DELETE("/api/session")),
    onSuccess: () => become(null),
  });
}
