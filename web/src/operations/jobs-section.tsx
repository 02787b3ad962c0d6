/** Jobs: long work of the server, with what it came to, and beginning retention and rebuilds. */

import { useState } from "react";
import { useSearchParams } from "react-router";
import { api, ask } from "../api/client";
import { count, dollars, time } from "../format";
import { Confirm } from "../parts/dialog";
import { Empty, Failure, Loading } from "../parts/notice";
import { JobCard, JobState, jobTitle } from "./job-card";
import styles from "./operations.module.css";
import { type Job, useBegin, useJobs } from "./use-jobs";
import { WideTable } from "./wide-table";

/** The section. `job` in the address is the one that is followed. */
export function JobsSection() {
  const [params, setParams] = useSearchParams();
  const jobs = useJobs();
  const job = params.get("job");
  const show = (id: string | undefined) =>
    setParams((now) => {
      const next = new URLSearchParams(now);
      if (id) next.set("job", id);
      else next.delete("job");
      return next;
    });
  return (
    <>
      {job && <JobCard key={job} id={job} onClose={() => show(undefined)} />}
      <div className={styles.cards}>
        <Work
          title="Retention"
          about="Drops data older than its project keeps. Saved runs stay. The server also runs it every day."
          trial="Dry run: only report what would be dropped"
          yes="Drop expired data"
          warning="Dropped data cannot be restored. Run a dry run first to be sure."
          begin={(isTrial) =>
            ask(api.POST("/api/internal/retention", { body: { dry_run: isTrial, trust_clock: false } }))
          }
          onShow={show}
        />
        <Work
          title="Rebuild"
          about="Folds all stored events into a second table of runs, while ingest continues, and compares the two."
          trial="Only compare"
          yes="Rebuild the runs"
          warning="The new table replaces the old one. It can take long and uses much CPU."
          begin={(isTrial) => ask(api.POST("/api/internal/rebuild", { body: { check_only: isTrial, project: null } }))}
          onShow={show}
        />
      </div>
      {jobs.isPending && <Loading what="jobs" />}
      {jobs.isError && <Failure error={jobs.error} again={() => jobs.refetch()} />}
      {jobs.data?.data.length === 0 && <Empty title="No jobs yet" />}
      {jobs.data && jobs.data.data.length > 0 && (
        <section className="card stack" aria-label="Jobs">
          <h2>Jobs</h2>
          <WideTable
            label="Jobs"
            heads={["Job", "State", "Done", "Changed", "Cost", "Requested", "Finished", ""]}
            figures={["Done", "Changed"]}
          >
            {jobs.data.data.map((one) => (
              <tr key={one.job_id} aria-current={one.job_id === job || undefined}>
                <td>
                  {jobTitle(one)}
                  {one.project_id && <div className="soft small">project {one.project_id}</div>}
                </td>
                <td>
                  <JobState job={one} />
                </td>
                <td className="number">{one.total > 0 ? `${count(one.done)} of ${count(one.total)}` : "–"}</td>
                <td className="number">{count(one.changed)}</td>
                <td>{one.cost_before == null ? "–" : `${dollars(one.cost_before)} → ${dollars(one.cost_after)}`}</td>
                <td className={styles.time}>{time(one.created_at)}</td>
                <td className={styles.time}>{time(one.ended_at)}</td>
                <td>
                  <button type="button" aria-pressed={one.job_id === job} onClick={() => show(one.job_id)}>
                    Show<span className="unseen"> the job of {time(one.created_at)}</span>
                  </button>
                </td>
              </tr>
            ))}
          </WideTable>
        </section>
      )}
    </>
  );
}

type WorkProps = {
  title: string;
  about: string;
  trial: string;
  yes: string;
  warning: string;
  begin: (isTrial: boolean) => Promise<Job>;
  onShow: (id: string) => void;
};

function Work({ title, about, trial, yes, warning, begin, onShow }: WorkProps) {
  const [isAsking, setIsAsking] = useState(false);
  const work = useBegin(begin, (job) => {
    setIsAsking(false);
    onShow(job.job_id);
  });
  return (
    <section className="card stack" aria-label={title}>
      <h2>{title}</h2>
      <p className="soft">{about}</p>
      <div className="row">
        <button type="button" disabled={work.isPending} onClick={() => work.mutate(true)}>
          {trial}
        </button>
        <button type="button" className="danger" disabled={work.isPending} onClick={() => setIsAsking(true)}>
          {yes}…
        </button>
      </div>
      {work.isError && !isAsking && <Failure error={work.error} />}
      {isAsking && (
        <Confirm
          title={`${yes}?`}
          yes={yes}
          isPending={work.isPending}
          onYes={() => work.mutate(false)}
          onClose={() => setIsAsking(false)}
        >
          <p>{warning}</p>
          {work.isError && <Failure error={work.error} />}
        </Confirm>
      )}
    </section>
  );
}
