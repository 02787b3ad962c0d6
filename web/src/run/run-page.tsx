/** A run: its figures, the trace it is part of, its input and output, and what can be done with it. */

import { useEffect, useMemo } from "react";
import { Link, useLocation, useNavigate } from "react-router";
import { ApiFault } from "../api/client";
import { count } from "../format";
import { useKeys } from "../parts/keys";
import { Failure, Loading } from "../parts/notice";
import { Page } from "../parts/page";
import { Tabs } from "../parts/tabs";
import { Payload } from "../payload/payload";
import type { View } from "../payload/shape";
import { nameIn, runLink } from "../runs/run-link";
import { attributesOf } from "./attribute-list";
import { Attributes } from "./attributes";
import { Said } from "./facts";
import { withoutInternal } from "./internal-spans";
import styles from "./run.module.css";
import { RunActions } from "./run-actions";
import { RunCalls } from "./run-calls";
import { RunDetails } from "./run-details";
import { RunErrorNotice } from "./run-error";
import { RunEvents } from "./run-events";
import { RunHead } from "./run-head";
import { SpanPanel } from "./span-panel";
import { treeOf } from "./span-tree";
import { isGoing, stretchOf } from "./time-scale";
import { TraceView } from "./trace-view";
import { useMarks } from "./use-marks";
import { type RunDetail, useRun, useTrace } from "./use-run";
import { useView } from "./use-view";

/** The page at `/runs/:runId`. */
export default function RunPage() {
  const { pathname } = useLocation();
  const { params } = useView();
  const name = {
    run_id: nameIn(pathname),
    app_id: params.get("app_id"),
    project_id: params.get("project_id"),
  };
  // Another run is another page: nothing of the one before stays.
  return <OneRun key={JSON.stringify(name)} name={name} />;
}

type Name = { run_id: string; app_id: string | null; project_id: string | null };

function OneRun({ name }: { name: Name }) {
  const marks = useMarks();
  const asked = useRun(name, { isAwaiting: marks.isAwaiting });
  const run = asked.data;
  const { settle } = marks;
  useEffect(() => {
    if (run) settle(run);
  }, [run, settle]);
  useWayBack(name.project_id);
  if (run) return <Found name={name} run={run} marks={marks} />;
  const title = name.run_id.slice(0, 120);
  if (asked.isPending) {
    return (
      <Page title={title}>
        <Loading what="the run" />
      </Page>
    );
  }
  const isMissing = asked.error instanceof ApiFault && asked.error.status === 404;
  return (
    <Page title={title}>
      {isMissing ? (
        <div className="notice row" role="status">
          <span className="grow">
            Run <Said text={name.run_id} /> not found, or you cannot read its project. A run that was just reported
            usually appears within a few seconds; the page keeps <span className="pulse">looking</span>.
          </span>
          <button type="button" onClick={() => asked.refetch()}>
            Look now
          </button>
        </div>
      ) : (
        <Failure error={asked.error} again={() => asked.refetch()} />
      )}
    </Page>
  );
}

/** Esc leaves the zoom; without one it leads to where one came from, or to the list. */
function useWayBack(projectId: string | null) {
  const navigate = useNavigate();
  const { params, setView } = useView();
  useKeys({
    Escape: () => {
      if (params.has("zoom")) return setView({ zoom: undefined });
      const before = (window.history.state as { idx?: number } | null)?.idx ?? 0;
      if (before > 0) navigate(-1);
      else navigate(projectId ? `/runs?project_id=${encodeURIComponent(projectId)}` : "/runs");
    },
  });
}

const TABS = ["trace", "payload", "calls", "details", "events"] as const;
type Tab = (typeof TABS)[number];

type FoundProps = { name: Name; run: RunDetail; marks: ReturnType<typeof useMarks> };

function Found({ name, run, marks }: FoundProps) {
  const { params, setView } = useView();
  const projectId = name.project_id ?? run.project_id;
  const isPart = params.get("part") === "true";
  const trace = useTrace({
    run_id: isPart ? run.run_id : run.root_run_id,
    app_id: run.app_id,
    project_id: projectId,
  });
  const spans = trace.data?.data.length;
  const wanted = params.get("tab") as Tab | null;
  const tabs = TABS.filter((one) => one !== "calls" || run.calls.length > 1);
  // A run that is alone has no trace to look at.
  const tab: Tab = wanted && tabs.includes(wanted) ? wanted : spans === 1 ? "payload" : "trace";
  const titles: Record<Tab, string> = {
    trace: spans === undefined ? "Trace" : `Trace (${count(spans)}${trace.data?.truncated ? "+" : ""})`,
    payload: "Input and output",
    calls: `Model calls (${count(run.calls.length)}${run.events_truncated ? "+" : ""})`,
    details: "Details",
    events: `Events (${count(run.events.length)}${run.events_truncated ? "+" : ""})`,
  };
  const view = (params.get("view") ?? undefined) as View | undefined;
  const choose = (chosen: View) => setView({ view: chosen });
  return (
    <Page
      title={(run.name ?? run.run_id).slice(0, 120)}
      fills={tab === "trace"}
      actions={<RunActions run={run} projectId={projectId} marks={marks} />}
    >
      {run.also_in_apps && run.also_in_apps.length > 0 && <OtherApps run={run} projectId={projectId} />}
      <RunHead run={run} projectId={projectId} marks={marks} />
      <Tabs
        label="Parts of the run"
        tabs={tabs.map((one) => ({ id: one, label: titles[one] }))}
        chosen={tab}
        onChoose={(one) => setView({ tab: one })}
        fills
        beside={
          isGoing(run) && (
            <span className="soft small pulse" role="status">
              Running, updated live
            </span>
          )
        }
      >
        {/* Inside of the panel: the tabs stay where they are. */}
        {run.error && tab !== "trace" && <RunErrorNotice error={run.error} />}
        {tab === "trace" && <Trace trace={trace} run={run} projectId={projectId} />}
        {tab === "payload" && (
          <div className={styles.twoSides}>
            <div className="card">
              <Payload value={run.input} label="Input" view={view} onView={choose} />
            </div>
            <div className="card">
              <Payload value={run.output} label="Output" view={view} onView={choose} />
            </div>
          </div>
        )}
        {tab === "payload" && run.input == null && run.output == null && (
          <div className="card">
            <Attributes all={attributesOf(run)} projectId={projectId} />
          </div>
        )}
        {tab === "calls" && <RunCalls run={run} projectId={projectId} />}
        {tab === "details" && <RunDetails run={run} projectId={projectId} marks={marks} />}
        {tab === "events" && <RunEvents run={run} />}
      </Tabs>
    </Page>
  );
}

function OtherApps({ run, projectId }: { run: RunDetail; projectId: string | undefined }) {
  return (
    <p className="notice" style={{ margin: 0 }}>
      This is the run of the app{" "}
      <b>
        <Said text={run.app_id} />
      </b>
      . Runs with the same id exist in{" "}
      {run.also_in_apps?.map((app, index) => (
        <span key={app}>
          {index > 0 && ", "}
          <Link to={runLink({ run_id: run.run_id, app_id: app, project_id: projectId })}>
            <Said text={app} />
          </Link>
        </span>
      ))}
      .
    </p>
  );
}

type TraceProps = { trace: ReturnType<typeof useTrace>; run: RunDetail; projectId: string | undefined };

function Trace({ trace, run, projectId }: TraceProps) {
  const { params, setView } = useView();
  const spans = trace.data?.data;
  const wanted = params.get("span") ?? run.run_id;
  const isWhole = params.get("internal") === "true";
  const folded = useMemo(() => withoutInternal(spans ?? [], wanted), [spans, wanted]);
  const tree = useMemo(() => treeOf(isWhole ? (spans ?? []) : folded.spans), [isWhole, spans, folded]);
  const originMs = useMemo(() => stretchOf(spans ?? [], 0).from, [spans]);
  const choose = (id: string) => setView({ span: id === run.run_id ? undefined : id });
  if (trace.isPending) return <Loading what="the trace" />;
  if (trace.isError && !spans) return <Failure error={trace.error} again={() => trace.refetch()} />;
  const chosen = tree.places[tree.byId.get(wanted) ?? tree.byId.get(run.run_id) ?? 0];
  const isPart = params.get("part") === "true";
  return (
    <>
      {trace.data?.truncated && (
        <p className="notice warn" style={{ margin: 0 }}>
          This trace has more than {count(spans?.length)} spans; the rest is not shown.{" "}
          {tree.byId.has(run.run_id) ? "" : "This run is not among them."}
        </p>
      )}
      {(trace.data?.truncated || isPart) && run.root_run_id !== run.run_id && (
        <div className="row">
          <button type="button" onClick={() => setView({ part: isPart ? undefined : "true" })}>
            {isPart ? "Show the whole trace" : "Show only this run and its descendants"}
          </button>
        </div>
      )}
      {chosen && (
        <TraceView
          tree={tree}
          readAtMs={trace.dataUpdatedAt}
          chosen={chosen.span.run_id}
          onChoose={choose}
          beside={
            folded.left > 0 && (
              <button
                type="button"
                aria-pressed={isWhole}
                title="Spans of the client's own functions"
                onClick={() => setView({ internal: isWhole ? undefined : "true" })}
              >
                {isWhole ? "Hide" : "Show"}{" "}
                {folded.left === 1 ? "1 internal span" : `${count(folded.left)} internal spans`}
              </button>
            )
          }
        >
          <SpanPanel
            key={chosen.span.run_id}
            place={chosen}
            projectId={projectId}
            originMs={originMs}
            isPage={chosen.span.run_id === run.run_id}
          />
        </TraceView>
      )}
    </>
  );
}
