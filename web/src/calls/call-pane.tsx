/** A model call in full: its prompt, its answer, its figures, and room for what one thinks of it. */

import { useState } from "react";
import { Link } from "react-router";
import { count, dollars, duration, time } from "../format";
import { Failure, Loading } from "../parts/notice";
import { Status } from "../parts/status";
import { Payload } from "../payload/payload";
import { RunCalls } from "../run/run-calls";
import { useRun } from "../run/use-run";
import { type RunName, runLink } from "../runs/run-link";
import { markOf, useMark } from "../runs/use-marks";
import { type Run, runKey } from "../runs/use-runs";
import styles from "./calls.module.css";
import { RatingButtons } from "./rating-buttons";

/** How long a call that was read stays as it is, for those who walk back and forth. */
const STAY_MS = 30_000;

type Props = {
  name: RunName;
  /** The call as the list has it, where it has it: it knows of feedback that was given a moment ago. */
  listed: Run | undefined;
  onClose: () => void;
};

/** The pane. */
export function CallPane({ name, listed, onClose }: Props) {
  const asked = useRun(name, { staleTime: STAY_MS });
  const run = listed ?? asked.data;
  return (
    <section className={styles.pane} aria-label="Selected call">
      <div className="row">
        <h2 className="grow clip">
          <bdi>{(run?.model ?? run?.name ?? name.run_id).slice(0, 120)}</bdi>
        </h2>
        <Link className="button" to={runLink(name)}>
          Open the run
        </Link>
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
      {run && (
        <>
          <Facts run={run} />
          <CallFeedback key={runKey(run)} run={run} />
        </>
      )}
      {asked.isPending && <Loading what="the call" />}
      {asked.isError && <Failure error={asked.error} again={() => asked.refetch()} />}
      {asked.data && (
        <>
          {asked.data.calls.length > 1 && <RunCalls run={asked.data} projectId={name.project_id ?? undefined} />}
          {asked.data.error && <Payload value={asked.data.error} label="Error" />}
          <Payload value={asked.data.input} label="Input" />
          <Payload value={asked.data.output} label="Output" />
        </>
      )}
    </section>
  );
}

function Facts({ run }: { run: Run }) {
  const facts: [string, React.ReactNode][] = [
    ["Status", <Status key="status" status={run.status} stale={run.stale} />],
    ["Cost", run.cost_status === "unpriced_model" ? "no price" : dollars(run.cost)],
    ["Tokens in", count(run.prompt_tokens)],
    ["Tokens out", count(run.completion_tokens)],
    ["Latency", duration(run.latency_s)],
    ["First token", run.ttft_ms == null ? null : duration(run.ttft_ms / 1000)],
    ["Tokens/s", run.tokens_per_second == null ? null : count(Math.round(run.tokens_per_second))],
    ["Started", time(run.started_at)],
    ["Agent", run.agent],
    ["User", run.user_email],
    ["App", run.app_id],
  ];
  return (
    <dl className={styles.facts}>
      {facts.map(([label, value]) => (
        <div key={label}>
          <dt>{label}</dt>
          <dd>{typeof value === "string" ? <bdi>{value.slice(0, 120)}</bdi> : (value ?? "–")}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Feedback with words. */
function CallFeedback({ run }: { run: Run }) {
  const mark = useMark();
  const [comment, setComment] = useState("");
  const give = (rating: "positive" | "negative") => {
    const words = comment.trim();
    const feedback = { kind: "feedback", rating, ...(words ? { comment: words } : {}) } as const;
    mark.mutate(markOf(run, feedback), { onSuccess: () => setComment("") });
  };
  return (
    <div className={styles.feedback}>
      <div className="row">
        <span className="soft small">Feedback</span>
        <RatingButtons run={run} />
        {run.feedback?.comment && <bdi className={styles.comment}>“{run.feedback.comment.slice(0, 500)}”</bdi>}
      </div>
      <div className={styles.words}>
        <label className="grow">
          With a comment
          <input value={comment} maxLength={2000} dir="auto" onChange={(event) => setComment(event.target.value)} />
        </label>
        <button type="button" disabled={!comment.trim() || mark.isPending} onClick={() => give("positive")}>
          Good
        </button>
        <button type="button" disabled={!comment.trim() || mark.isPending} onClick={() => give("negative")}>
          Bad
        </button>
      </div>
      {mark.isError && <Failure error={mark.error} again={() => mark.variables && mark.mutate(mark.variables)} />}
    </div>
  );
}
