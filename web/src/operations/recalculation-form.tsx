/** Asks which stored runs are to be priced again. */

import { useState } from "react";
import { api, ask, type Shapes } from "../api/client";
import { Dialog } from "../parts/dialog";
import { Failure } from "../parts/notice";
import { useProject } from "../shell/project";
import styles from "./operations.module.css";
import { useBegin } from "./use-jobs";

type Props = {
  /** The model to begin with. */
  model: string;
  /** The job began. */
  onBegun: (id: string) => void;
  onClose: () => void;
};

/** A time of a field, which is in the reader's zone. */
function moment(local: string): string | null {
  return local ? new Date(local).toISOString() : null;
}

/** The dialog. */
export function RecalculationForm(props: Props) {
  const project = useProject();
  const [model, setModel] = useState(props.model);
  const [app, setApp] = useState("");
  const [from, setFrom] = useState("");
  const [to, setTo] = useState("");
  const begin = useBegin(
    (body: Shapes["RecalculateBody"]) => ask(api.POST("/api/internal/cost/recalculate", { body })),
    (job) => props.onBegun(job.job_id),
  );
  const start = (isTrial: boolean) =>
    begin.mutate({
      model: model || null,
      app_id: app || null,
      from: moment(from),
      to: moment(to),
      project_id: project ?? null,
      dry_run: isTrial,
    });
  return (
    <Dialog title="Recalculate costs" onClose={props.onClose}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          start(false);
        }}
      >
        <p className="soft">
          Recomputes the costs of stored runs with the current prices; costs sent by clients do not change. Empty fields
          do not limit
          {project ? `; the project is ${project}` : ""}.
        </p>
        <div className={styles.form}>
          <label>
            Model
            <input value={model} maxLength={512} onChange={(event) => setModel(event.target.value)} />
          </label>
          <label>
            App
            <input value={app} maxLength={256} onChange={(event) => setApp(event.target.value)} />
          </label>
          <label>
            Started from
            <input type="datetime-local" value={from} onChange={(event) => setFrom(event.target.value)} />
          </label>
          <label>
            Started until
            <input type="datetime-local" value={to} onChange={(event) => setTo(event.target.value)} />
          </label>
        </div>
        {begin.isError && <Failure error={begin.error} />}
        <div className="row">
          <button type="submit" className="primary" disabled={begin.isPending}>
            Recalculate
          </button>
          <button type="button" disabled={begin.isPending} onClick={() => start(true)}>
            Dry run: only report what would change
          </button>
          <button type="button" onClick={props.onClose}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}
