/** The details of the chosen span, beside the trace. What the list knows is there at once, the rest when it was read. */

import { Link } from "react-router";
import { dollars, duration, time } from "../format";
import { Failure, Loading } from "../parts/notice";
import { Status } from "../parts/status";
import { Payload } from "../payload/payload";
import type { View } from "../payload/shape";
import { runLink } from "../runs/run-link";
import { type Fact, Facts, Said } from "./facts";
import { costSaid, speedSaid, tokensSaid } from "./figures";
import styles from "./run.module.css";
import { RunErrorNotice } from "./run-error";
import type { Place, Span } from "./span-tree";
import { offsetLabel } from "./time-scale";
import { useRun } from "./use-run";
import { useView } from "./use-view";

type Props = {
  place: Place;
  projectId: string | undefined;
  /** When the trace began. */
  originMs: number;
  /** Whether the page is this span's own. */
  isPage: boolean;
};

/** The details. */
export function SpanPanel({ place, projectId, originMs, isPage }: Props) {
  const { span } = place;
  const { params, setView } = useView();
  const name = { run_id: span.run_id, app_id: span.app_id, project_id: projectId };
  const detail = useRun(name);
  const run = detail.data?.run_id === span.run_id ? detail.data : undefined;
  const isZoomed = params.get("zoom") === span.run_id;
  const view = (params.get("view") ?? undefined) as View | undefined;
  const choose = (chosen: View) => setView({ view: chosen });
  return (
    <div className="stack">
      <div className={styles.panelHead}>
        <h2>
          <Said text={span.name ?? span.run_id} />
        </h2>
        <Status status={span.status} stale={span.stale} />
        <span className="grow" />
        <button type="button" aria-pressed={isZoomed} onClick={() => setView({ zoom: isZoomed ? "" : span.run_id })}>
          Zoom to its time
        </button>
        {!isPage && (
          <Link className="button" to={runLink(name)}>
            Open this run
          </Link>
        )}
      </div>
      <Facts isNarrow facts={factsOf(span, originMs, place)} />
      {(run?.error ?? span.error) && <RunErrorNotice error={(run?.error ?? span.error) as { message: string }} />}
      {run ? (
        <>
          <Payload value={run.input} label="Input" view={view} onView={choose} />
          <Payload value={run.output} label="Output" view={view} onView={choose} />
        </>
      ) : detail.isError ? (
        <Failure error={detail.error} again={() => detail.refetch()} />
      ) : (
        <Loading what="input and output" />
      )}
    </div>
  );
}

function factsOf(span: Span, originMs: number, place: Place): Fact[] {
  const offset = Date.parse(span.started_at) - originMs;
  return [
    ["Type", span.type && <Said text={span.type} />],
    ["Starts", `${offset > 0 ? `${offsetLabel(offset, 1)} in` : "with the trace"}, ${time(span.started_at)}`],
    [
      "Latency",
      span.latency_s == null ? (span.stale ? "no end was reported" : "still going") : duration(span.latency_s),
    ],
    ["Clock", place.earlyMs > 0 && `begins ${duration(place.earlyMs / 1000)} before its parent`],
    ["Parent", place.isAdrift && <Said text={`${span.parent_run_id}, not in this trace`} />],
    ["Model", span.model && <Said text={span.model} />],
    ["Tokens", tokensSaid(span)],
    ["Speed", speedSaid(span)],
    ["Cost", span.type === "llm" || span.cost > 0 ? costSaid(span) : undefined],
    ["With children", span.total_cost > span.cost && dollars(span.total_cost)],
    ["Agent", span.agent && <Said text={span.agent} />],
    ["Feedback", span.feedback?.rating],
  ];
}
