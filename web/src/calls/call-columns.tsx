/** A model call as a row: what was asked, what was answered, what it took, and what one thinks of it. */

import { count, dollars, duration, time } from "../format";
import { Status } from "../parts/status";
import type { Run } from "../runs/use-runs";
import type { Column } from "../table/data-table";
import styles from "./calls.module.css";
import { spoken } from "./preview";
import { RatingButtons } from "./rating-buttons";

/** Height of a row in pixels: four lines. */
export const CALL_PX = 98;

export const CALL_COLUMNS: Column<Run>[] = [
  {
    id: "call",
    title: "Call",
    width: "minmax(150px, 1fr)",
    cell: (run) => (
      <div className={styles.call}>
        <div className={styles.line}>
          <b className="clip">
            <bdi>{(run.model ?? run.name ?? run.run_id).slice(0, 80)}</bdi>
          </b>
          {run.status !== "success" && <Status status={run.status} stale={run.stale} />}
          {run.agent && <bdi className="soft small clip">{run.agent.slice(0, 80)}</bdi>}
        </div>
        <div className={styles.said}>
          <span className={styles.who}>Asked</span>
          <bdi className="clip">{spoken(run.input_preview).slice(0, 200) || "–"}</bdi>
        </div>
        <div className={styles.said}>
          <span className={styles.who}>{run.error ? "Error" : "Answer"}</span>
          <bdi className="clip">{(run.error?.message ?? spoken(run.output_preview)).slice(0, 200) || "–"}</bdi>
        </div>
        <time className="soft small number" dateTime={run.started_at}>
          {time(run.started_at)}
        </time>
      </div>
    ),
  },
  {
    id: "figures",
    title: "Took",
    width: "116px",
    isNumber: true,
    cell: (run) => (
      <div className={styles.figures}>
        <span>{dollars(run.cost_status === "unpriced_model" ? null : run.cost)}</span>
        <span title="Tokens of the prompt and of the answer">
          {count(run.prompt_tokens)} <span aria-hidden="true">→</span>
          <span className="unseen">in,</span> {count(run.completion_tokens)}
          <span className="unseen"> out</span>
        </span>
        <span>
          {duration(run.latency_s)}
          {run.ttft_ms != null && (
            <span className="soft" title="Time to the first token">
              {" "}
              ({duration(run.ttft_ms / 1000)}
              <span className="unseen"> to the first token</span>)
            </span>
          )}
        </span>
      </div>
    ),
  },
  { id: "feedback", title: "Feedback", width: "94px", cell: (run) => <RatingButtons run={run} /> },
];
