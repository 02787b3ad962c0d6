/** Which filters a run can cease to fulfil. The live stream sends only what fulfils them still. Pure. */

import type { RunQuery } from "./use-runs";

/** What of a run changes after its start: that it grows, ends, is judged, saved, or given a parent. */
const PASSING = ["status", "stale", "saved", "feedback", "max_latency_s", "max_cost", "root"];

/** Whether runs of this list may come to belong to it no longer, of which the stream says nothing. */
export function mayLeave(query: RunQuery): boolean {
  return PASSING.some((name) => query[name] !== undefined);
}
