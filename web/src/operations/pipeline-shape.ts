/** What the server says of the pipeline of events. */

import type { Shapes } from "../api/client";

/** A process that takes, folds or serves. */
export type PipelineProcess = Shapes["PipelineProcess"];
/** A partition of the log in which records wait and nothing is committed. */
export type StalledPartition = Shapes["StalledPartition"];
/** All of it, as it is at a moment. */
export type Pipeline = Shapes["Pipeline"];
