/**
 * Reports what AI agents do to Spindle: runs, model calls, conversations and feedback.
 *
 * Delivery is best effort: events wait in a bounded queue and are sent in the background; what is lost is counted.
 */

export { type Message, Spindle } from "./client.js";
export {
  agent,
  chain,
  chat,
  close,
  configure,
  currentRun,
  defaultClient,
  feedback,
  flush,
  flushAfterRuns,
  llm,
  saved,
  start,
  stats,
  tool,
  unsaved,
  withTags,
  withThread,
  withUser,
} from "./default-client.js";
export type { RunType, Usage } from "./event.js";
export type { Run, RunOptions } from "./run.js";
export type { Options } from "./settings.js";
export type { DropReason, Stats } from "./stats.js";
export { VERSION } from "./version.js";
export type { WrapperOptions } from "./wrapper.js";
