/** Which run an address means, and the addresses of this part. Pure. */

import type { RunName } from "../runs/run-link";

/**
 * The id in the path of a run's page. The router's own parameter is no use: it takes `%252F` for a slash, and an id may
 * hold both.
 */
export function runIdIn(pathname: string): string {
  const written = pathname.replace(/^\/+runs\//, "");
  try {
    return decodeURIComponent(written);
  } catch {
    // Written by hand, with a per cent sign that means itself.
    return written;
  }
}

/** The address of a comparison. */
export function compareLink(a: RunName, b: RunName, projectId: string | undefined): string {
  const params = new URLSearchParams({ a: a.run_id });
  if (a.app_id) params.set("a_app", a.app_id);
  params.set("b", b.run_id);
  if (b.app_id) params.set("b_app", b.app_id);
  if (projectId) params.set("project_id", projectId);
  return `/compare?${params}`;
}

/** The address of a thread. */
export function threadLink(threadId: string, appId: string, projectId: string | undefined): string {
  const params = new URLSearchParams({ app_id: appId });
  if (projectId) params.set("project_id", projectId);
  return `/threads/${encodeURIComponent(threadId)}?${params}`;
}
