/** What else is known of a run: its names, its metadata, fields that mean nothing here, and what was said about it. */

import { Link } from "react-router";
import { dollars, duration, time } from "../format";
import { FoldedText } from "../payload/folded-text";
import { Payload } from "../payload/payload";
import { runLink } from "../runs/run-link";
import { clientVersion } from "./client-version";
import { Facts, Id } from "./facts";
import { costSaid, tokensSaid } from "./figures";
import styles from "./run.module.css";
import type { Marks } from "./use-marks";
import type { RunDetail } from "./use-run";

type Props = { run: RunDetail; projectId: string | undefined; marks: Marks };

/** The details. */
export function RunDetails({ run, projectId, marks }: Props) {
  const client = clientVersion({ ...run, project_id: projectId });
  const link = (id: string) => runLink({ run_id: id, app_id: run.app_id, project_id: projectId });
  return (
    <div className={styles.twoSides}>
      <div className="card stack">
        <h2>Fields</h2>
        <Facts
          isNarrow
          facts={[
            ["Run", <Id key="run" id={run.run_id} />],
            ["App", <Id key="app" id={run.app_id} />],
            ["Project", run.project_id && <Id id={run.project_id} />],
            ["Parent", run.parent_run_id && <Id id={run.parent_run_id} to={link(run.parent_run_id)} />],
            ["Root", run.root_run_id !== run.run_id && <Id id={run.root_run_id} to={link(run.root_run_id)} />],
            ["Thread", run.thread_id && <Id id={run.thread_id} />],
            [
              "Client",
              client && (
                <Link to={client.link} title="Runs of this app from this version of the client">
                  {client.name} {client.version}
                </Link>
              ),
            ],
            ["Started", <Moment key="started" at={run.started_at} />],
            ["Ended", run.ended_at ? <Moment key="ended" at={run.ended_at} /> : "not reported"],
            ["Latency", duration(run.latency_s)],
            ["Own cost", costSaid(run)],
            ["Cost with children", dollars(run.total_cost)],
            ["Own tokens", tokensSaid(run) ?? "none known"],
            ["Prompt tokens with children", String(run.total_prompt_tokens)],
            ["Completion tokens with children", String(run.total_completion_tokens)],
          ]}
        />
        {run.tags.length > 0 && <Payload value={run.tags} label="Tags" />}
      </div>
      <div className="stack">
        <div className="card stack">
          <Feedback run={run} marks={marks} />
        </div>
        <div className="card">
          <Payload value={emptyAsNone(run.metadata)} label="Metadata" />
        </div>
        <div className="card">
          <Payload value={emptyAsNone(run.fields)} label="Other fields of its events" />
        </div>
      </div>
    </div>
  );
}

function emptyAsNone(fields: Record<string, unknown>): unknown {
  return Object.keys(fields).length === 0 ? null : fields;
}

/** A time in the reader's zone, and to the millisecond as the server has it. */
function Moment({ at }: { at: string }) {
  return (
    <>
      {time(at)}
      <br />
      <span className="soft small">{at}</span>
    </>
  );
}

/** Feedback entries shown; there are rarely more than a few. */
const MAX_FEEDBACK = 100;

function Feedback({ run, marks }: { run: RunDetail; marks: Marks }) {
  const all = [
    ...run.feedback_history.map((one) => ({ ...one, isComing: false })),
    ...marks.given.flatMap(({ mark, at }) => (mark.kind === "feedback" ? [{ ...mark, at, isComing: true }] : [])),
  ].reverse();
  return (
    <>
      <h2>Feedback</h2>
      {all.length === 0 && <p className="soft">No feedback yet.</p>}
      {all.slice(0, MAX_FEEDBACK).map((one, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: feedback has no id of its own
        <div key={index}>
          <span className={`chip ${one.rating === "positive" ? "good" : one.rating === "negative" ? "bad" : ""}`}>
            {one.rating ?? "no rating"}
          </span>{" "}
          <span className="soft small">
            {time(one.at)}
            {one.isComing && ", being sent"}
          </span>
          {one.comment && <FoldedText text={one.comment} first={600} />}
        </div>
      ))}
    </>
  );
}
