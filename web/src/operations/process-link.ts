/** Where builds and instances of processes are looked at. */

/** The query of an address; what is not given is left out. */
function query(values: Record<string, string | null | undefined>): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) if (value) params.set(name, value);
  return params.size > 0 ? `?${params}` : "";
}

/** The page of an instance. */
export function instanceLink(uuid: string, project: string | null | undefined): string {
  return `/operations/processes/instance/${encodeURIComponent(uuid)}${query({ project_id: project })}`;
}

/** The page of a build; with a process, the form that starts it. Ids may hold anything, so they are no path. */
export function buildLink(app: string, build: string, project: string | null | undefined, start?: string): string {
  return `/operations/processes/build${query({ app_id: app, build_id: build, project_id: project, start })}`;
}

/** The form that registers a build, with another one to begin with. */
export function registerLink(app: string, build: string, project: string | null | undefined): string {
  return `/operations/processes/register${query({ app_id: app, build_id: build, project_id: project })}`;
}
