/** Where a run is looked at. */

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
