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

/** The key that was created on a page: the page keeps it, as the guide goes when the first run comes. */
export type CreatedKey = { secret: string | undefined; keep: (secret: string | undefined) => void };

/** Keeps a created key while its page is open. Nothing else has the secret. */
export function useCreatedKey(): CreatedKey {
  const [secret, keep] = useState<string>();
  return { secret, keep };
}

/** The created key, until it is dismissed. */
export function CreatedKeyNotice({ created }: { created: CreatedKey }) {
  if (created.secret === undefined) return null;
  return (
    <div className="notice good row" role="status">
      <span className="grow">
        Your new key, which is not shown again: <code className={styles.secret}>{created.secret}</code>
      </span>
      <CopyButton label="Copy the key" text={created.secret} />
      <button type="button" onClick={() => created.keep(undefined)}>
        Dismiss
      </button>
    </div>
  );
}

/** The guide. The page that shows it polls for the first run. */
export function FirstEvent({ created }: { created: CreatedKey }) {
  const isAdmin = useRole("admin");
  const [chosen, setChosen] = useState("python");
  const all = snippets(window.location.origin, created.secret);
  const shown = all.find((snippet) => snippet.id === chosen) ?? all[0];
  return (
    <section className={`card stack ${styles.guide}`} aria-labelledby="first-event">
      <h2 id="first-event">No runs yet: report the first one</h2>
      {isAdmin ? (
        <CreateKey created={created} />
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

function CreateKey({ created }: { created: CreatedKey }) {
  const projects = useProjects(useSession().data);
  const project = useProject() ?? projects[0] ?? "default";
  const create = useCreateKey((key) => created.keep(key.secret));
  const submit = () => create.submit({ project_id: project, name: "first key", scopes: ["report", "read"] });
  if (created.secret !== undefined) return <p className="soft">Your new key is in the commands below.</p>;
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
