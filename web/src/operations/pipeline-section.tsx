/** How the pipeline of events is: what comes in and is stored, the log between, and the processes. */

import { type QueryClient, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, ask } from "../api/client";
import { useRole } from "../api/session";
import { bytes, count, duration, percent, time } from "../format";
import { Failure, Loading } from "../parts/notice";
import { DeadLetters } from "./dead-letters";
import styles from "./operations.module.css";
import { COUNTERS, KEPT_MS, rateText, type Sample, total, withSample } from "./pipeline-rates";
import type { Pipeline, PipelineProcess } from "./pipeline-shape";
import { stalledPartitions, stalledText } from "./pipeline-stalls";
import { Fact, Figure } from "./scan-report";
import { Spark } from "./spark";
import { WideTable } from "./wide-table";

const EVERY_MS = 2_000;
const KEY = ["pipeline"];
type Seen = { now: Pipeline; samples: Sample[] };

async function look(client: QueryClient, signal: AbortSignal): Promise<Seen> {
  const now = await ask(api.GET("/api/internal/pipeline", { signal }));
  // The looks before are in the cache: returning to the page shows the last minutes.
  return { now, samples: withSample(client.getQueryData<Seen>(KEY)?.samples ?? [], now) };
}

/** The section. */
export function PipelineSection() {
  const client = useQueryClient();
  const isAdmin = useRole("admin");
  const pipeline = useQuery({
    queryKey: KEY,
    queryFn: ({ signal }) => look(client, signal),
    refetchInterval: EVERY_MS,
    staleTime: 0,
    structuralSharing: false,
  });
  const { data } = pipeline;
  return (
    <>
      {pipeline.isPending && <Loading what="the pipeline" />}
      {pipeline.isError && <Failure error={pipeline.error} again={() => pipeline.refetch()} />}
      {data && (
        <>
          {pipeline.failureCount > 0 && !pipeline.isError && (
            <p className="notice warn" role="status">
              The server does not answer. The last state is from {time(data.now.at)}.
            </p>
          )}
          <Flow seen={data} />
          <div className={styles.cards}>
            <Log now={data.now} samples={data.samples} />
            <Counted now={data.now} />
          </div>
          <Processes processes={data.now.processes} />
        </>
      )}
      {isAdmin && <DeadLetters />}
    </>
  );
}

function Flow({ seen: { now, samples } }: { seen: Seen }) {
  const last = samples.at(-1)?.rates;
  const line = (name: "accepted_events" | "stored_events") =>
    samples.map((sample) => ({ atMs: sample.atMs, value: sample.rates?.[name] ?? null }));
  return (
    <section className="card stack" aria-label="Events">
      <div className="row">
        <h2 className="grow">Events</h2>
        <span className="soft small">up to {KEPT_MS / 60_000} minutes, while this page is open</span>
      </div>
      <div className={styles.figures}>
        <Figure label="Accepted" value={<Keyed kind="accepted">{rateText(last?.accepted_events)}</Keyed>} />
        <Figure label="Stored" value={<Keyed kind="stored">{rateText(last?.stored_events)}</Keyed>} />
        <Figure label="Behind" value={now.log?.lag_records == null ? "–" : `${count(now.log.lag_records)} records`} />
        <Figure
          label="Dead letters"
          value={count(total(now.processes, "dead_lettered_events"))}
          isBad={(total(now.processes, "dead_lettered_events") ?? 0) > 0}
        />
      </div>
      <Spark
        label="Events per second"
        unit={rateText}
        lines={[
          { name: "accepted", values: line("accepted_events") },
          { name: "stored", values: line("stored_events") },
        ]}
      />
    </section>
  );
}

function Keyed({ kind, children }: { kind: "accepted" | "stored"; children: string }) {
  return (
    <span className={styles.keyed}>
      <span className={styles[kind]} aria-hidden="true" />
      {children}
    </span>
  );
}

function Log({ now, samples }: { now: Pipeline; samples: Sample[] }) {
  const { log } = now;
  const stalled = stalledPartitions(now.processes);
  const share = log?.used_bytes != null && log.max_bytes ? log.used_bytes / log.max_bytes : null;
  return (
    <section className="card stack" aria-label="Event log">
      <h2>Event log</h2>
      {now.log_error && (
        <p className="notice bad" dir="auto">
          {now.log_error}
        </p>
      )}
      {stalled.length > 0 && (
        <div className="notice bad" role="status" aria-label="Stalled partitions">
          {stalled.map((one) => (
            <div key={one.partition} dir="auto">
              {stalledText(one)}
            </div>
          ))}
        </div>
      )}
      {log ? (
        <>
          <dl className={styles.facts}>
            <Fact name="Kind">
              {log.kind} {log.version}
            </Fact>
            <Fact name="Brokers, topics">
              {count(log.brokers)}, {count(log.topics)}
            </Fact>
            <Fact name="Not stored yet">
              {log.lag_records == null ? "not known" : `${count(log.lag_records)} records`}
            </Fact>
            <Fact name="Disk">
              {log.used_bytes == null
                ? "not known"
                : `${bytes(log.used_bytes)}${log.max_bytes ? ` of ${bytes(log.max_bytes)}` : ""}`}
            </Fact>
            {share !== null && <Fact name="Full">{percent(share)}</Fact>}
          </dl>
          {share !== null && (
            <meter className={styles.bar} max={1} high={0.8} value={share} aria-label="Disk of the log" />
          )}
          <Spark
            label="Records not stored yet"
            unit={(value) => `${count(value)} records`}
            lines={[{ name: "behind", values: samples.map(({ atMs, lag }) => ({ atMs, value: lag })) }]}
          />
        </>
      ) : (
        !now.log_error && <p className="soft">The state of the log is unknown.</p>
      )}
    </section>
  );
}

const NAMES = {
  accepted_events: "Accepted",
  stored_events: "Stored",
  dead_lettered_events: "Dead letters",
  rejected_events: "Rejected",
} as const;

function Counted({ now }: { now: Pipeline }) {
  const waiting = now.waiting_marks;
  return (
    <section className="card stack" aria-label="Since the start">
      <h2>Events since the processes started</h2>
      <dl className={styles.facts}>
        {COUNTERS.map((name) => (
          <Fact key={name} name={NAMES[name]}>
            {count(total(now.processes, name))}
          </Fact>
        ))}
        {waiting && (
          <Fact name="Marks that wait for their run">
            {waiting.oldest_at ? `${count(waiting.runs)}, since ${time(waiting.oldest_at)}` : "none"}
          </Fact>
        )}
        <Fact name="As of">{time(now.at)}</Fact>
      </dl>
    </section>
  );
}

function Processes({ processes }: { processes: PipelineProcess[] }) {
  return (
    <section className="card stack" aria-label="Processes">
      <h2>Processes</h2>
      <WideTable
        label="Processes of the deployment"
        heads={["Process", "Ready", "Version", "Accepted", "Stored", "Dead letters", "Rejected", "Last heartbeat"]}
        figures={["Accepted", "Stored", "Dead letters", "Rejected"]}
      >
        {processes.map((one) => (
          <tr key={one.process + one.role}>
            <td>
              {one.role} <span className="soft small">{one.endpoint}</span>
            </td>
            <td>
              <span className={`chip ${one.ready ? "good" : "bad"}`}>{one.ready ? "ready" : "not ready"}</span>
              {one.missing.map(({ part, reason }) => (
                <div key={part} className={styles.error} dir="auto">
                  {part}: {reason}
                </div>
              ))}
            </td>
            <td>{one.version}</td>
            {COUNTERS.map((name) => (
              <td key={name} className="number">
                {count(one[name])}
              </td>
            ))}
            <td>{one.silent_ms < 5_000 ? "now" : `${duration(one.silent_ms / 1000)} ago`}</td>
          </tr>
        ))}
      </WideTable>
    </section>
  );
}
