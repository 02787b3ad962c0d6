/** The details of the chosen span, beside the trace. What the list knows is there at once, the rest when it was read. */

import { type ReactNode, useMemo } from "react";
import { Link } from "react-router";
import { count, dollars, duration, time } from "../format";
import { Failure, Loading } from "../parts/notice";
import { Status } from "../parts/status";
import { Tabs } from "../parts/tabs";
import { Payload } from "../payload/payload";
import type { View } from "../payload/shape";
import { runLink } from "../runs/run-link";
import { attributesOf } from "./attribute-list";
import { Attributes } from "./attributes";
import { type Fact, FactLine, Facts, Said } from "./facts";
import { costSaid, speedSaid, tokensSaid, tokensShort } from "./figures";
import styles from "./run.module.css";
import { RunErrorNotice } from "./run-error";
import { RunEvents } from "./run-events";
import type { Place, Span } from "./span-tree";
import { offsetLabel } from "./time-scale";
import { type RunDetail, useRun } from "./use-run";
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
      <FactLine facts={shortFacts(span)} />
      {(run?.error ?? span.error) && <RunErrorNotice error={(run?.error ?? span.error) as { message: string }} />}
      {run ? (
        <Parts run={run} projectId={projectId} facts={factsOf(span, originMs, place)}>
          <Payload value={run.input} label="Input" view={view} onView={choose} />
          <Payload value={run.output} label="Output" view={view} onView={choose} />
        </Parts>
      ) : detail.isError ? (
        <Failure error={detail.error} again={() => detail.refetch()} />
      ) : (
        <Loading what="input and output" />
      )}
    </div>
  );
}

const PARTS = ["messages", "attributes", "events", "raw"] as const;
type Part = (typeof PARTS)[number];

type PartsProps = { run: RunDetail; projectId: string | undefined; facts: Fact[]; children: ReactNode };

/** What is known of a span. A span without input and output opens with its attributes. */
function Parts({ run, projectId, facts, children }: PartsProps) {
  const { params, setView } = useView();
  const attributes = useMemo(() => attributesOf(run), [run]);
  const isSilent = run.input == null && run.output == null;
  const wanted = params.get("part_of_span") as Part | null;
  const part = wanted && PARTS.includes(wanted) ? wanted : isSilent ? "attributes" : "messages";
  const labels: Record<Part, string> = {
    messages: "Messages",
    attributes: `Attributes (${count(attributes.length)})`,
    events: `Events (${count(run.events.length)}${run.events_truncated ? "+" : ""})`,
    raw: "Raw",
  };
  return (
    <Tabs
      label="Parts of the span"
      tabs={PARTS.map((one) => ({ id: one, label: labels[one] }))}
      chosen={part}
      onChoose={(one) => setView({ part_of_span: one })}
    >
      {part === "messages" && children}
      {part === "attributes" && (
        <div className="stack">
          <Facts isNarrow facts={facts} />
          <Attributes all={attributes} projectId={projectId} />
        </div>
      )}
      {part === "events" && <RunEvents run={run} />}
      {part === "raw" && <Payload value={run} label="Run" view="json" />}
    </Tabs>
  );
}

/** What one looks for first. */
function shortFacts(span: Span): Fact[] {
  const isCosted = span.type === "llm" || span.cost > 0;
  return [
    ["Type", span.type && <Said text={span.type} />],
    ["Model", span.model && <Said text={span.model} />],
    ["Latency", latencySaid(span)],
    ["Tokens, prompt and completion", tokensShort(span)],
    ["Cost", isCosted ? costSaid(span) : span.total_cost > 0 && `${dollars(span.total_cost)} with children`],
  ];
}

function latencySaid(span: Span): string {
  if (span.latency_s != null) return duration(span.latency_s);
  return span.stale ? "no end was reported" : "still going";
}

function factsOf(span: Span, originMs: number, place: Place): Fact[] {
  const offset = Date.parse(span.started_at) - originMs;
  return [
    ["Type", span.type && <Said text={span.type} />],
    ["Starts", `${offset > 0 ? `${offsetLabel(offset, 1)} in` : "with the trace"}, ${time(span.started_at)}`],
    ["Latency", latencySaid(span)],
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
