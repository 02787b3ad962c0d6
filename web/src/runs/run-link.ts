/** Where a run is looked at, and where two are compared. Pure. */

/** What names a run: ids are unique inside an app, and apps inside a project. */
export type RunName = { run_id: string; app_id?: string | null | undefined; project_id?: string | null | undefined };

/** The address of its page. */
export function runLink({ run_id, app_id, project_id }: RunName): string {
  const params = new URLSearchParams();
  if (app_id) params.set("app_id", app_id);
  if (project_id) params.set("project_id", project_id);
  const query = params.size > 0 ? `?${params}` : "";
  return `/runs/${encodeURIComponent(run_id)}${query}`;
}

/**
 * The name after `/runs/` or `/threads/` in a path. The router's own parameter is no use: it takes `%252F` for a slash,
 * and a name may hold both.
 */
export function nameIn(pathname: string): string {
  const written = pathname.replace(/^\/+[^/]*\//, "").replace(/\/$/, "");
  try {
    return decodeURIComponent(written);
  } catch {
    // Written by hand, with a per cent sign that means itself.
    return written;
  }
}

/** The address of the comparison of two runs of one project; `projectId` is theirs if they do not say it themselves. */
export function compareLink(a: RunName, b: RunName, projectId: string | undefined): string {
  const params = new URLSearchParams({ a: a.run_id });
  if (a.app_id) params.set("a_app", a.app_id);
  params.set("b", b.run_id);
  if (b.app_id) params.set("b_app", b.app_id);
  const project = a.project_id ?? projectId;
  if (project) params.set("project_id", project);
  return `/compare?${params}`;
}
