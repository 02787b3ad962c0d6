/** The figures of a run. */

import { Link } from "react-router";
import { count, dollars, duration, time } from "../format";
import { Status } from "../parts/status";
import { runLink } from "../runs/run-link";
import { threadLink } from "../threads/thread-link";
import { type Fact, Facts, Id, Said } from "./facts";
import { costSaid, pricesSaid, speedSaid, tokensSaid } from "./figures";
import styles from "./run.module.css";
import type { Marks } from "./use-marks";
import type { RunDetail } from "./use-run";

type Props = { run: RunDetail; projectId: string | undefined; marks: Marks };

/** The figures, in one strip. */
export function RunHead({ run, projectId, marks }: Props) {
  const facts: Fact[] = [
    ["Status", <Status key="status" status={run.status} stale={run.stale} />],
    ["Type", run.type && <Said text={run.type} />],
    ["Started", time(run.started_at)],
    ["Latency", run.latency_s == null ? (run.stale ? "no end reported" : "still going") : duration(run.latency_s)],
    ["Total cost", dollars(run.total_cost)],
    ["Own cost", run.cost_status !== "not_llm" && costSaid(run)],
    ["Tokens with children", run.total_tokens_with_children > 0 && count(run.total_tokens_with_children)],
    ["Priced as", pricesSaid(run)],
    ["Own tokens", tokensSaid(run)],
    ["Speed", speedSaid(run)],
    ["Model calls", run.llm_calls > 0 && count(run.llm_calls)],
    ["Errors", run.error_count > 0 && count(run.error_count)],
    ["Model", run.model && <Said text={run.model} />],
    ["Agent", run.agent && <Said text={run.agent} most={80} />],
    ["User", run.user_email && <Said text={run.user_email} />],
    [
      "Thread",
      run.thread_id && (
        <Link
          to={threadLink({
            thread_id: run.thread_id,
            app_id: run.app_id,
            grouped_by: "thread_id",
            project_id: projectId,
          })}
        >
          <Said text={run.thread_id} most={40} />
        </Link>
      ),
    ],
    ["App", <Said key="app" text={run.app_id} most={60} />],
    ["Run", <Id key="run" id={run.run_id} most={40} />],
    ["Counted by", run.counted_run_id && <OtherReport id={run.counted_run_id} run={run} projectId={projectId} />],
    ["Content from", run.content_run_id && <OtherReport id={run.content_run_id} run={run} projectId={projectId} />],
    ["Tags", run.tags.length > 0 && <Tags tags={run.tags} />],
    ["Feedback", <NewestFeedback key="feedback" run={run} marks={marks} />],
  ];
  return <Facts facts={facts} />;
}

/** Another report of the same model call. */
function OtherReport({ id, run, projectId }: { id: string; run: RunDetail; projectId: string | undefined }) {
  return (
    <Link to={runLink({ run_id: id, app_id: run.app_id, project_id: projectId })}>
      <Said text={id} most={40} />
    </Link>
  );
}

/** Tags shown at most; all of them are among the details. */
const MAX_TAGS = 12;

function Tags({ tags }: { tags: string[] }) {
  return (
    <span className={styles.tags}>
      {tags.slice(0, MAX_TAGS).map((tag) => (
        <span key={tag} className="chip" title={tag.slice(0, 300)}>
          <bdi>{tag.length > 40 ? `${tag.slice(0, 40)}…` : tag}</bdi>
        </span>
      ))}
      {tags.length > MAX_TAGS && <span className="soft small">+{count(tags.length - MAX_TAGS)}</span>}
    </span>
  );
}

function NewestFeedback({ run, marks }: { run: RunDetail; marks: Marks }) {
  const coming = marks.given.at(-1)?.mark;
  const newest = coming?.kind === "feedback" ? coming : run.feedback;
  const way = marks.isLate ? "accepted, not seen on the run yet" : "on its way";
  return (
    <span aria-live="polite">
      {newest?.rating ? (
        <span className={`chip ${newest.rating === "positive" ? "good" : "bad"}`}>
          <span aria-hidden="true">{newest.rating === "positive" ? "▲" : "▼"}</span> {newest.rating}
        </span>
      ) : (
        <span className="soft">none</span>
      )}
      {coming && <span className="soft small"> {way}</span>}
      {!coming && marks.saved !== undefined && (
        <span className="soft small">
          {" "}
          {marks.saved ? "saving" : "unsaving"} {way}
        </span>
      )}
    </span>
  );
}
