/** What the server says of the pipeline of events. */

/** A process that takes, folds or serves. */
export type PipelineProcess = {
  /** Names the process, anew at each start. */
  process: string;
  role: string;
  version: string;
  endpoint: string;
  ready: boolean;
  missing: { part: string; reason: string }[];
  silent_ms: number;
  /** Counters since the process began; null where its tier does not count. */
  accepted_events: number | null;
  stored_events: number | null;
  dead_lettered_events: number | null;
  rejected_events: number | null;
};

/** The log between taking and folding. */
export type PipelineLog = {
  kind: string;
  version: string;
  brokers: number;
  topics: number;
  lag_records: number | null;
  used_bytes: number | null;
  max_bytes: number | null;
};

/** All of it, as it is at a moment. */
export type Pipeline = {
  at: string;
  processes: PipelineProcess[];
  log: PipelineLog | null;
  log_error: string | null;
};
