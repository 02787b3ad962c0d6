/** What is shown while there are no runs: how to report the first one, to this very address, with a key made here. */

import { useState } from "react";
import { useRole, useSession } from "../api/session";
import { useCreateKey } from "../operations/use-create-key";
import { useProject, useProjects } from "../shell/project";
import { CopyButton } from "./copy-button";
import styles from "./first-event.module.css";
import { Failure } from "./notice";
import { snippets } from "./snippets";
import { Tabs } from "./tabs";

/** The guide. The page that shows it polls for the first run. */
export function FirstEvent() {
  const isAdmin = useRole("admin");
  // The only place that has the secret: it is gone with the page.
  const [key, setKey] = useState<string>();
  const [chosen, setChosen] = useState("python");
  const all = snippets(window.location.origin, key);
  const shown = all.find((snippet) => snippet.id === chosen) ?? all[0];
  return (
    <section className={`card stack ${styles.guide}`} aria-labelledby="first-event">
      <h2 id="first-event">No runs yet: report the first one</h2>
      {isAdmin ? (
        <CreateKey secret={key} onCreated={setKey} />
      ) : (
        <p>
          Ask an administrator for an API key with the scope <code>report</code>, created with{" "}
          <code>spindle key create</code>.
        </p>
      )}
      <Tabs label="Ways to report" tabs={all} chosen={shown?.id ?? ""} onChoose={setChosen}>
        <div className="stack">
          <Code label="Set up your shell" copy="Copy the setup" text={shown?.setup ?? ""} />
          <Code label="Run" copy="Copy the program" text={shown?.program ?? ""} />
        </div>
      </Tabs>
      <p className="soft pulse" role="status">
        Waiting for the first run. It appears here automatically.
      </p>
    </section>
  );
}

function CreateKey({ secret, onCreated }: { secret: string | undefined; onCreated: (secret: string) => void }) {
  const projects = useProjects(useSession().data);
  const project = useProject() ?? projects[0] ?? "default";
  const create = useCreateKey((key) => onCreated(key.secret));
  const submit = () => create.submit({ project_id: project, name: "first key", scopes: ["report", "read"] });
  if (secret) {
    return (
      <p className="notice good" role="status">
        The key is in the commands below. Keep it: it is not shown again.
      </p>
    );
  }
  return (
    <>
      <div className="row">
        <button type="button" className="primary" disabled={create.isPending} onClick={submit}>
          {create.isPending ? "Creating…" : "Create key"}
        </button>
        <span className="soft">
          of the project <b>{project}</b>, to report and to read; it is put into the commands below
        </span>
      </div>
      {create.error && <Failure error={create.error} again={submit} />}
    </>
  );
}

function Code({ label, copy, text }: { label: string; copy: string; text: string }) {
  return (
    <div className="stack" style={{ gap: 4 }}>
      <span className="soft small">{label}</span>
      <div className={styles.code}>
        <div className={styles.copy}>
          <CopyButton label={copy} text={text} />
        </div>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, so the keyboard must reach it */}
        <pre tabIndex={0}>{text}</pre>
      </div>
    </div>
  );
}
