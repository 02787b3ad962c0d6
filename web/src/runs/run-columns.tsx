/** The columns of a table of runs, and which of them an address names. */

import { Link } from "react-router";
import { count, dollars, duration, time } from "../format";
import { Status } from "../parts/status";
import type { Column } from "../table/data-table";
import styles from "./run-columns.module.css";
import { runLink } from "./run-link";
import type { Run } from "./use-runs";

/** Letters of a text that a cell holds: no cell shows more. */
const SHOWN = 200;

function text(value: string | null | undefined) {
  return value ? <bdi title={value.slice(0, 1000)}>{value.slice(0, SHOWN)}</bdi> : <span className="soft">–</span>;
}

/** What was said of a run. */
export function RatingChip({ feedback }: { feedback: Run["feedback"] }) {
  if (!feedback?.rating) return <span className="soft">–</span>;
  const isGood = feedback.rating === "positive";
  return (
    <span className={`chip ${isGood ? "good" : "bad"}`} title={feedback.comment?.slice(0, 1000) || undefined}>
      <span aria-hidden="true">{isGood ? "▲" : "▼"}</span> {isGood ? "good" : "bad"}
    </span>
  );
}

/** All columns, in the order they stand. */
export const RUN_COLUMNS: readonly Column<Run>[] = [
  {
    id: "status",
    title: "Status",
    width: "92px",
    cell: (run) => <Status status={run.status} stale={run.stale} />,
  },
  {
    id: "name",
    title: "Name",
    width: "minmax(126px, 1.4fr)",
    cell: (run) => (
      <Link className={styles.name ?? ""} to={runLink(run)} title={run.name?.slice(0, 1000)}>
        <bdi>{(run.name || run.run_id).slice(0, SHOWN)}</bdi>
      </Link>
    ),
  },
  { id: "type", title: "Type", width: "68px", cell: (run) => text(run.type) },
  { id: "app", title: "App", width: "minmax(86px, 0.7fr)", cell: (run) => text(run.app_id) },
  { id: "agent", title: "Agent", width: "minmax(104px, 1fr)", cell: (run) => text(run.agent) },
  { id: "model", title: "Model", width: "minmax(112px, 1fr)", cell: (run) => text(run.model) },
  {
    id: "started",
    title: "Started",
    width: "170px",
    sort: "-started_at",
    cell: (run) => (
      <time dateTime={run.started_at} className="number" title={run.started_at}>
        {time(run.started_at)}
      </time>
    ),
  },
  {
    id: "latency",
    title: "Latency",
    width: "96px",
    sort: "-latency_s",
    isNumber: true,
    cell: (run) => duration(run.latency_s),
  },
  {
    id: "tokens",
    title: "Total tokens",
    width: "126px",
    sort: "-total_tokens",
    isNumber: true,
    cell: (run) => count(run.total_tokens_with_children),
  },
  {
    id: "cost",
    title: "Total cost",
    width: "110px",
    sort: "-total_cost",
    isNumber: true,
    cell: (run) =>
      run.cost_status === "unpriced_model" ? (
        <span title="The model has no price.">{dollars(run.total_cost)} ?</span>
      ) : run.cost_status === "counted_elsewhere" ? (
        <span title={`Another instrumentation reported this call too: run ${run.counted_run_id ?? ""} counts it.`}>
          counted elsewhere
        </span>
      ) : (
        dollars(run.total_cost)
      ),
  },
  { id: "user", title: "User", width: "minmax(130px, 1fr)", cell: (run) => text(run.user_email) },
  {
    id: "tags",
    title: "Tags",
    width: "minmax(110px, 1fr)",
    cell: (run) =>
      run.tags.length === 0 ? (
        text(null)
      ) : (
        <span className={styles.tags} title={run.tags.join(", ").slice(0, 1000)}>
          {run.tags.slice(0, 4).map((tag) => (
            <bdi key={tag} className="chip">
              {tag.slice(0, 40)}
            </bdi>
          ))}
          {run.tags.length > 4 && <span className="soft">+{run.tags.length - 4}</span>}
        </span>
      ),
  },
  { id: "feedback", title: "Feedback", width: "92px", cell: (run) => <RatingChip feedback={run.feedback} /> },
  {
    id: "saved",
    title: "Saved",
    width: "72px",
    cell: (run) => (run.saved ? <span className="chip info">saved</span> : text(null)),
  },
  { id: "input", title: "Input", width: "minmax(180px, 2fr)", cell: (run) => text(run.input_preview) },
  { id: "output", title: "Output", width: "minmax(180px, 2fr)", cell: (run) => text(run.output_preview) },
  { id: "error", title: "Error", width: "minmax(140px, 1.4fr)", cell: (run) => text(errorText(run)) },
  {
    id: "ttft",
    title: "First token",
    width: "104px",
    sort: "-ttft_ms",
    isNumber: true,
    cell: (run) => (run.ttft_ms == null ? text(null) : duration(run.ttft_ms / 1000)),
  },
  {
    id: "speed",
    title: "Tokens/s",
    width: "88px",
    isNumber: true,
    cell: (run) => (run.tokens_per_second == null ? text(null) : count(Math.round(run.tokens_per_second))),
  },
  { id: "calls", title: "Model calls", width: "92px", isNumber: true, cell: (run) => count(run.llm_calls) },
  { id: "errors", title: "Errors", width: "76px", isNumber: true, cell: (run) => count(run.error_count) },
  { id: "thread", title: "Thread", width: "minmax(110px, 1fr)", cell: (run) => text(run.thread_id) },
  { id: "run", title: "Run id", width: "minmax(120px, 1fr)", cell: (run) => text(run.run_id) },
  { id: "project", title: "Project", width: "minmax(90px, 0.7fr)", cell: (run) => text(run.project_id) },
];

function errorText(run: Run): string | null {
  if (!run.error) return null;
  return [run.error.name, run.error.message].filter(Boolean).join(": ");
}

/** Columns shown unless an address says otherwise. */
export const USUAL_COLUMNS: readonly string[] = [
  "status",
  "name",
  "type",
  "agent",
  "model",
  "started",
  "latency",
  "tokens",
  "cost",
  "user",
  "tags",
  "feedback",
  "saved",
  "input",
  "output",
];
