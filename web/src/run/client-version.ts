/** Which client library reported a run, and in which version. Pure. */

import type { RunName } from "../runs/run-link";

/** The key of the metadata in which Spindle's own libraries name themselves, at runs without a parent. */
const KEY = "spindle_client";

/** A library: its name, its version, and the runs of the same app that it reported in this version. */
export type ClientVersion = { name: string; version: string; link: string };

/** The library that a run's metadata names, if it names one as ours do: `spindle-client-python/0.1.0`. */
export function clientVersion(run: RunName & { metadata: Record<string, unknown> }): ClientVersion | undefined {
  const said = run.metadata[KEY];
  const [, name, version] = (typeof said === "string" && said.match(/^([\w-]{1,60})\/([\w.+-]{1,40})$/)) || [];
  if (typeof said !== "string" || !name || !version) return undefined;
  const params = new URLSearchParams();
  if (run.app_id) params.set("app_id", run.app_id);
  if (run.project_id) params.set("project_id", run.project_id);
  params.set(`metadata.${KEY}`, said);
  return { name, version, link: `/runs?${params}` };
}
