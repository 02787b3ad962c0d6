/** One job and how far it is. */

import { useEffect, useRef } from "react";
import { count, dollars, time } from "../format";
import { Failure, Loading } from "../parts/notice";
import { Payload } from "../payload/payload";
import styles from "./operations.module.css";
import { Fact } from "./scan-report";
import { isOpen, type Job, useCancel, useJob } from "./use-jobs";

const STATES: Record<string, string> = {
  queued: "info",
  running: "info",
  done: "good",
  failed: "bad",
  cancelled: "warn",
};

/** The state of a job, in a word and a color, and its place in the queue. */
export function JobState({ job }: { job: Job }) {
  const place = job.position == null ? "" : `, number ${job.position}`;
  return <span className={`chip ${STATES[job.state] ?? ""}`}>{`${job.state}${place}`}</span>;
}

function parametersOf(job: Job): Record<string, unknown> {
  return job.parameters;
}

/** What a job was asked to do, in words. */
export function jobTitle(job: Job): string {
  const asked = parametersOf(job);
  const isTrial = asked.dry_run === true || asked.check_only === true;
  const names: Record<string, string> = {
    recalculate: "Recalculation of costs",
    retention: "Retention",
    rebuild: "Rebuild",
  };
  return `${names[job.kind] ?? job.kind}${isTrial ? " (changes nothing)" : ""}`;
}

type Props = { id: string; onClose: () => void; onDone?: () => void };

/** The job, followed until it is over. */
export function JobCard({ id, onClose, onDone }: Props) {
  const asked = useJob(id);
  const cancel = useCancel(id);
  const job = asked.data;
  const wasOpen = useRef(false);
  useEffect(() => {
    if (!job) return;
    if (wasOpen.current && !isOpen(job)) onDone?.();
    wasOpen.current = isOpen(job);
  }, [job, onDone]);
  if (!job) {
    return asked.isError ? <Failure error={asked.error} again={() => asked.refetch()} /> : <Loading what="the job" />;
  }
  return (
    <section className="card stack" aria-label="Job">
      <div className="row">
        <h2 className="grow">{jobTitle(job)}</h2>
        <span aria-live="polite">
          <JobState job={job} />
        </span>
        {isOpen(job) && (
          <button type="button" className="danger" disabled={cancel.isPending} onClick={() => cancel.mutate()}>
            {cancel.isPending ? "Canceling…" : "Cancel the job"}
          </button>
        )}
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
      <Progress job={job} />
      <dl className={styles.facts}>
        {job.kind === "recalculate" && (
          <>
            <Fact name={parametersOf(job).dry_run === true ? "Runs that would change" : "Changed runs"}>
              {count(job.changed)}
            </Fact>
            <Fact name="Cost">
              {dollars(job.cost_before)} before, {dollars(job.cost_after)} after
            </Fact>
          </>
        )}
        <Asked job={job} />
        <Fact name="Requested">{time(job.created_at)}</Fact>
        {job.ended_at && <Fact name="Finished">{time(job.ended_at)}</Fact>}
        <Fact name="Id">
          <code>{job.job_id}</code>
        </Fact>
      </dl>
      {job.error && (
        <p className="notice bad" dir="auto">
          {job.error}
        </p>
      )}
      {job.report && <Payload value={job.report} label="Report" />}
      {cancel.isError && <Failure error={cancel.error} again={() => cancel.mutate()} />}
      {asked.isError && <Failure error={asked.error} again={() => asked.refetch()} />}
    </section>
  );
}

function Progress({ job }: { job: Job }) {
  if (!isOpen(job) && job.total === 0) return null;
  // While nothing is counted yet the bar shows that something is on its way.
  const known = job.total > 0 ? { max: job.total, value: Math.min(job.done, job.total) } : {};
  return (
    <div>
      <progress className={styles.bar} aria-label="Progress of the job" {...known} />
      <span className="number small">{job.total > 0 ? `${count(job.done)} of ${count(job.total)}` : waiting(job)}</span>
    </div>
  );
}

function waiting(job: Job): string {
  return job.state === "queued" ? "waits for the jobs before it" : "counting the work";
}

function Asked({ job }: { job: Job }) {
  const { from, to, app_id, model, project_id, project } = parametersOf(job);
  const said = Object.entries({ project: project_id ?? project ?? job.project_id, app: app_id, model, from, to })
    .filter(([, value]) => typeof value === "string" || typeof value === "number")
    .map(([name, value]) => `${name} ${value}`);
  return said.length > 0 ? <Fact name="Only">{said.join(", ")}</Fact> : null;
}
