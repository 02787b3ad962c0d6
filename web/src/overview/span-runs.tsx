/** The runs behind the totals: the runs that match the filter and the time range. */

import { useCallback, useMemo, useRef } from "react";
import { Link, useNavigate } from "react-router";
import { count, dollars, duration, time } from "../format";
import { Failure, Loading } from "../parts/notice";
import { Status } from "../parts/status";
import { runLink } from "../runs/run-link";
import { allRuns, type Run, runKey, useRuns } from "../runs/use-runs";
import { type Column, DataTable } from "../table/data-table";
import styles from "./overview.module.css";
import type { Query } from "./use-usage";

const cut = (text: string | null | undefined) =>
  text ? <bdi title={text.slice(0, 500)}>{text.slice(0, 120)}</bdi> : "–";

const COLUMNS: Column<Run>[] = [
  { id: "started_at", title: "Started", width: "165px", cell: (run) => time(run.started_at) },
  {
    id: "name",
    title: "Name",
    width: "minmax(170px, 2fr)",
    cell: (run) => (
      <Link to={runLink(run)} tabIndex={-1}>
        <bdi>{(run.name || run.run_id).slice(0, 120)}</bdi>
      </Link>
    ),
  },
  { id: "status", title: "Status", width: "95px", cell: (run) => <Status status={run.status} stale={run.stale} /> },
  { id: "agent", title: "Agent", width: "minmax(130px, 1fr)", cell: (run) => cut(run.agent) },
  { id: "model", title: "Model", width: "minmax(130px, 1fr)", cell: (run) => cut(run.model) },
  { id: "user_email", title: "User", width: "minmax(150px, 1fr)", cell: (run) => cut(run.user_email) },
  { id: "latency_s", title: "Latency", width: "100px", isNumber: true, cell: (run) => duration(run.latency_s) },
  { id: "total_tokens", title: "Own tokens", width: "104px", isNumber: true, cell: (run) => count(run.total_tokens) },
  { id: "cost", title: "Own cost", width: "100px", isNumber: true, cell: (run) => dollars(run.cost) },
];

type Props = {
  query: Query;
  /** The same filter on the page of runs. */
  to: string;
  /** How many runs there are, as the figures say. */
  total: number | undefined;
};

/** The list. */
export function SpanRuns({ query, to, total }: Props) {
  const navigate = useNavigate();
  const runs = useRuns(query);
  const last = useRef(runs.data);
  if (runs.data) last.current = runs.data;
  // A span that ends now is another each minute: what was there stays until its runs are.
  const kept = runs.isPending ? last.current : runs.data;
  const rows = useMemo(() => allRuns(kept), [kept]);
  const { hasNextPage, isFetchingNextPage, isFetchNextPageError, fetchNextPage } = runs;
  const more = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage && !isFetchNextPageError) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, isFetchNextPageError, fetchNextPage]);
  return (
    <section className={`card stack ${styles.runs}`} aria-label="Runs in this time range" aria-busy={runs.isPending}>
      <div className="row">
        <h2 className="grow">
          Runs in this time range <span className="soft small">{count(total)}</span>
        </h2>
        <Link className="button" to={to}>
          Open in Runs
        </Link>
      </div>
      {runs.isPending && !kept && <Loading what="runs" />}
      {runs.isError && rows.length === 0 && <Failure error={runs.error} again={() => runs.refetch()} />}
      {runs.isSuccess && rows.length === 0 && <p className="soft">No matching run started in this time range.</p>}
      {rows.length > 0 && (
        <DataTable
          label="Runs in this time range"
          columns={COLUMNS}
          rows={rows}
          rowKey={runKey}
          total={total}
          onEnd={more}
          onOpen={(run) => navigate(runLink(run))}
          isPart
          foot={isFetchNextPageError && <Failure error={runs.error} again={() => void fetchNextPage()} />}
        />
      )}
    </section>
  );
}
