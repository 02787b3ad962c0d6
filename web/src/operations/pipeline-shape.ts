/** What the server says of the pipeline of events. */

import type { Shapes } from "../api/client";

/** A process that takes, folds or serves. */
export type PipelineProcess = Shapes["PipelineProcess"];
/** All of it, as it is at a moment. */
export type Pipeline = Shapes["Pipeline"];
