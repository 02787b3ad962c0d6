/** Where a thread is looked at. Pure. */

/** What names a thread: names are unique inside an app, and a window may be called like a thread. */
export type ThreadName = {
  thread_id: string;
  app_id?: string | null | undefined;
  grouped_by?: string | null | undefined;
  project_id?: string | null | undefined;
};

const PLACE = "/threads/";

/** The address of its page. */
export function threadLink({ thread_id, app_id, grouped_by, project_id }: ThreadName): string {
  const params = new URLSearchParams();
  if (app_id) params.set("app_id", app_id);
  if (grouped_by) params.set("grouped_by", grouped_by);
  if (project_id) params.set("project_id", project_id);
  return `${PLACE}${encodeURIComponent(thread_id)}${params.size > 0 ? `?${params}` : ""}`;
}

/** The address of the runs that name it. */
export function runsOfThreadLink({ thread_id, app_id, project_id }: ThreadName): string {
  const params = new URLSearchParams({ thread_id });
  if (app_id) params.set("app_id", app_id);
  if (project_id) params.set("project_id", project_id);
  return `/runs?${params}`;
}
