/** Two runs side by side: their figures, the fields that differ, and their inputs and outputs line by line. */

import { useQuery } from "@tanstack/react-query";
import { Link, useSearchParams } from "react-router";
import { ApiFault, api, type Shapes } from "../api/client";
import { count, dollars, duration, time } from "../format";
import { Empty, Failure, Loading } from "../parts/notice";
import { Page } from "../parts/page";
import { Status } from "../parts/status";
import { Wide } from "../parts/wide";
import { askExact } from "../payload/ask-exact";
import { Payload } from "../payload/payload";
import { runLink } from "../runs/run-link";
import styles from "./compare.module.css";
import { differenceSaid, type Wish } from "./compared";
import { Said } from "./facts";
import { TextDiff } from "./text-diff";

type RunDetail = Shapes["RunDetail"];
type Comparison = Shapes["Comparison"];

/** The page at `/compare`. */
export default function ComparePage() {
  const [params, setParams] = useSearchParams();
  const [a, b] = [params.get("a"), params.get("b")];
  const [aApp, bApp, projectId] = [params.get("a_app"), params.get("b_app"), params.get("project_id")];
  const asked = useQuery({
    queryKey: ["compare", a, aApp, b, bApp, projectId],
    queryFn: async ({ signal }) => {
      return askExact<Comparison>(
        api.POST("/api/run/compare", {
          params: { query: projectId ? { project_id: projectId } : {} },
          body: {
            run_id_a: a ?? "",
            run_id_b: b ?? "",
            ...(aApp ? { app_id_a: aApp } : {}),
            ...(bApp ? { app_id_b: bApp } : {}),
          },
          signal,
          parseAs: "text",
        }),
      );
    },
    enabled: Boolean(a && b),
  });
  const swap = () =>
    setParams(
      (now) => {
        const next = new URLSearchParams(now);
        for (const [name, value] of Object.entries({ a: b, a_app: bApp, b: a, b_app: aApp })) {
          if (value) next.set(name, value);
          else next.delete(name);
        }
        return next;
      },
      { replace: true },
    );
  const actions = a && b && (
    <button type="button" onClick={swap}>
      Swap sides
    </button>
  );
  return (
    <Page title="Compare" actions={actions}>
      {!a || !b ? (
        <Empty title="Select two runs">
          <p className="soft">
            Open a run and press “Compare”, or open an address with both: <code>/compare?a=…&b=…</code>
          </p>
        </Empty>
      ) : asked.isPending ? (
        <Loading what="both runs" />
      ) : asked.isError ? (
        <Failed error={asked.error} a={a} b={b} again={() => asked.refetch()} />
      ) : (
        <Compared comparison={asked.data} projectId={projectId} />
      )}
    </Page>
  );
}

/** The server says which of the two is missing, by the name of the field it came in. */
function Failed({ error, a, b, again }: { error: unknown; a: string; b: string; again: () => void }) {
  const which = error instanceof ApiFault && error.status === 404 && error.message.match(/run_id_([ab])/)?.[1];
  if (!which) return <Failure error={error} again={again} />;
  return (
    <div className="notice bad row" role="alert">
      <span className="grow">
        Run {which.toUpperCase()}, <Said text={which === "a" ? a : b} /> not found, or you cannot read its project. A
        run that was just reported usually appears within a few seconds.
      </span>
      <button type="button" onClick={again}>
        Try again
      </button>
    </div>
  );
}

function Compared({ comparison, projectId }: { comparison: Comparison; projectId: string | null }) {
  const { a, b, differences } = comparison;
  return (
    <>
      <div className={styles.sides}>
        <Side letter="A" run={a} projectId={projectId} />
        <Side letter="B" run={b} projectId={projectId} />
      </div>
      <Figures differences={differences} a={a} b={b} />
      <Fields differences={differences} />
      <TextDiff label="Input" a={a.input} b={b.input} isEqual={differences.input_equal} />
      <TextDiff label="Output" a={a.output} b={b.output} isEqual={differences.output_equal} />
    </>
  );
}

function Side({ letter, run, projectId }: { letter: string; run: RunDetail; projectId: string | null }) {
  return (
    <section className="card" aria-label={`Run ${letter}`}>
      <h2 className="row">
        <span className="chip info">{letter}</span>
        <Link to={runLink({ run_id: run.run_id, app_id: run.app_id, project_id: projectId ?? run.project_id })}>
          <Said text={run.name ?? run.run_id} most={80} />
        </Link>
        <Status status={run.status} stale={run.stale} />
      </h2>
      <div className="soft small">
        <Said text={run.run_id} /> in <Said text={run.app_id} />, {time(run.started_at)}
        {run.model && (
          <>
            , <Said text={run.model} />
          </>
        )}
      </div>
      {run.error && (
        <p style={{ margin: "6px 0 0" }}>
          <b>{run.error.name && <Said text={run.error.name} />}</b> <Said text={run.error.message} most={400} />
        </p>
      )}
    </section>
  );
}

type Differences = Comparison["differences"];
type FigureName =
  | "latency_s"
  | "cost"
  | "total_cost"
  | "prompt_tokens"
  | "completion_tokens"
  | "total_tokens"
  | "total_tokens_with_children";

const FIGURES: [FigureName, string, (value: number) => string, Wish][] = [
  ["latency_s", "Latency", duration, "less"],
  ["total_cost", "Total cost", dollars, "less"],
  ["cost", "Own cost", dollars, "less"],
  ["total_tokens_with_children", "Tokens with children", count, "neither"],
  ["total_tokens", "Own tokens", count, "neither"],
  ["prompt_tokens", "Prompt tokens", count, "neither"],
  ["completion_tokens", "Completion tokens", count, "neither"],
];

function Figures({ differences, a, b }: { differences: Differences; a: RunDetail; b: RunDetail }) {
  const errors = { a: a.error_count, b: b.error_count, delta: b.error_count - a.error_count };
  const rows: [string, Shapes["Difference"], (value: number) => string, Wish][] = [
    ...FIGURES.map(([name, title, format, wish]): (typeof rows)[number] => [title, differences[name], format, wish]),
    ["Errors", errors, count, "less"],
  ];
  return (
    <Wide className="card" label="Values of both runs">
      <table className={`plain ${styles.figures}`}>
        <caption className="unseen">Values of both runs</caption>
        <thead>
          <tr>
            <th>Figure</th>
            <th className="number">A</th>
            <th className="number">B</th>
            <th style={{ paddingLeft: 24 }}>B against A</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(([title, difference, format, wish]) => {
            const { text, outcome } = differenceSaid(difference, format, wish);
            return (
              <tr key={title}>
                <td>{title}</td>
                <td className="number">{difference.a == null ? "–" : format(difference.a)}</td>
                <td className="number">{difference.b == null ? "–" : format(difference.b)}</td>
                <td className={styles.outcome} data-outcome={outcome} style={{ paddingLeft: 24 }}>
                  {text}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </Wide>
  );
}

/** Fields shown at most; two runs rarely differ in so many that matter. */
const MAX_FIELDS = 200;

function Fields({ differences }: { differences: Differences }) {
  const { fields, tags_only_a, tags_only_b } = differences;
  const tags = tags_only_a.length + tags_only_b.length;
  if (fields.length === 0 && tags === 0) {
    return <p className="card soft">No other fields differ.</p>;
  }
  return (
    <Wide className="card" label="Fields that differ">
      <table className="plain">
        <caption className="unseen">Fields that differ</caption>
        <thead>
          <tr>
            <th>Field</th>
            <th>A</th>
            <th>B</th>
          </tr>
        </thead>
        <tbody>
          {tags > 0 && (
            <tr>
              <td>tags only in this run</td>
              <td className={styles.value}>
                <Tags tags={tags_only_a} />
              </td>
              <td className={styles.value}>
                <Tags tags={tags_only_b} />
              </td>
            </tr>
          )}
          {fields.slice(0, MAX_FIELDS).map((one) => (
            <tr key={one.field}>
              <td className={styles.value}>
                <Said text={one.field} />
              </td>
              <td className={styles.value}>
                <Payload value={one.a} label={`${one.field} of A`} compact />
              </td>
              <td className={styles.value}>
                <Payload value={one.b} label={`${one.field} of B`} compact />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {fields.length > MAX_FIELDS && <p className="soft">{count(fields.length - MAX_FIELDS)} more fields differ.</p>}
    </Wide>
  );
}

function Tags({ tags }: { tags: string[] }) {
  if (tags.length === 0) return <span className="soft">none</span>;
  return tags.slice(0, 50).map((tag) => (
    <span key={tag} className="chip" style={{ marginRight: 4 }}>
      <bdi>{tag.slice(0, 60)}</bdi>
    </span>
  ));
}
