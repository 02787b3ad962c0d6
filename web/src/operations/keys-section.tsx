/** API keys of projects: which there are, new ones, and revoking them. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, ask, type Shapes } from "../api/client";
import { useSession } from "../api/session";
import { time } from "../format";
import { Confirm } from "../parts/dialog";
import { Empty, Failure, Loading } from "../parts/notice";
import { useProject, useProjects } from "../shell/project";
import styles from "./operations.module.css";
import { SecretDialog } from "./secret-dialog";
import { useCreateKey } from "./use-create-key";
import { WideTable } from "./wide-table";

type Key = Shapes["Key"];
type Scope = Shapes["Scope"];
const SCOPES: { scope: Scope; means: string }[] = [
  { scope: "report", means: "report: send events" },
  { scope: "read", means: "read: see runs" },
];

/** The section. */
export function KeysSection() {
  const project = useProject();
  const [revoking, setRevoking] = useState<Key>();
  const keys = useQuery({
    queryKey: ["keys", project],
    queryFn: ({ signal }) =>
      ask(api.GET("/api/internal/keys", { params: { query: project ? { project_id: project } : {} }, signal })),
  });
  return (
    <>
      <NewKey />
      {keys.isPending && <Loading what="API keys" />}
      {keys.isError && <Failure error={keys.error} again={() => keys.refetch()} />}
      {keys.data?.data.length === 0 && (
        <Empty title="No API keys">
          <p>Programs report events with a key. Create one above.</p>
        </Empty>
      )}
      {keys.data && keys.data.data.length > 0 && (
        <section className="card">
          <WideTable label="API keys" heads={["Name", "Id", "Project", "Scopes", "Created", "State", ""]}>
            {[...keys.data.data].reverse().map((key) => (
              <tr key={key.id}>
                <td dir="auto">{key.name || <span className="soft">no name</span>}</td>
                <td className="mono">{key.id}</td>
                <td>{key.project_id}</td>
                <td>{key.scopes.join(", ")}</td>
                <td className={styles.time}>{time(key.created_at)}</td>
                <td>
                  {key.revoked_at ? (
                    <span className="chip bad">revoked {time(key.revoked_at)}</span>
                  ) : (
                    <span className="chip good">good</span>
                  )}
                </td>
                <td>
                  {!key.revoked_at && (
                    <button type="button" className="danger" onClick={() => setRevoking(key)}>
                      Revoke<span className="unseen"> {key.name || key.id}</span>
                    </button>
                  )}
                </td>
              </tr>
            ))}
          </WideTable>
        </section>
      )}
      {revoking && <RevokeKey of={revoking} onClose={() => setRevoking(undefined)} />}
    </>
  );
}

function NewKey() {
  const projects = useProjects(useSession().data);
  const chosen = useProject();
  const [made, setMade] = useState<Shapes["MadeKey"]>();
  const [name, setName] = useState("");
  const [project, setProject] = useState<string>();
  const [scopes, setScopes] = useState<Scope[]>(["report", "read"]);
  const belongs = project ?? chosen ?? projects[0] ?? "default";
  const create = useCreateKey((key) => {
    setMade(key);
    setName("");
  });
  const submit = () => create.submit({ project_id: belongs, name, scopes });
  return (
    <form
      className="card stack"
      aria-label="New API key"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <h2>New API key</h2>
      <div className={styles.form}>
        <label>
          Name
          <input value={name} maxLength={512} required onChange={(event) => setName(event.target.value)} />
        </label>
        <label>
          Project
          <select value={belongs} onChange={(event) => setProject(event.target.value)}>
            {[...new Set([belongs, ...projects])].map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </label>
        <fieldset className={styles.choices}>
          <legend>Scopes</legend>
          {SCOPES.map(({ scope, means }) => (
            <label className="line" key={scope}>
              <input
                type="checkbox"
                checked={scopes.includes(scope)}
                onChange={(event) =>
                  setScopes((now) => (event.target.checked ? [...now, scope] : now.filter((one) => one !== scope)))
                }
              />
              {means}
            </label>
          ))}
        </fieldset>
        <button type="submit" className="primary" disabled={create.isPending || scopes.length === 0}>
          {create.isPending ? "Creating…" : "Create key"}
        </button>
      </div>
      {create.error && <Failure error={create.error} again={submit} />}
      {made && (
        <SecretDialog
          what={`the key ${made.name || made.id}`}
          secret={made.secret}
          onClose={() => setMade(undefined)}
        />
      )}
    </form>
  );
}

function RevokeKey({ of, onClose }: { of: Key; onClose: () => void }) {
  const client = useQueryClient();
  const revoke = useMutation({
    mutationFn: () => ask(api.DELETE("/api/internal/keys/{id}", { params: { path: { id: of.id } } })),
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ["keys"] });
      onClose();
    },
  });
  return (
    <Confirm
      title="Revoke this API key?"
      yes={revoke.isPending ? "Revoking…" : "Revoke"}
      isPending={revoke.isPending}
      onYes={() => revoke.mutate()}
      onClose={onClose}
    >
      <p>
        <bdi>{of.name || of.id}</bdi> of the project {of.project_id} is rejected from then on. This cannot be undone.
      </p>
      {revoke.isError && <Failure error={revoke.error} />}
    </Confirm>
  );
}
