/** Makes a token; its secret is shown once. */

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, ask, type Shapes } from "../api/client";
import { useSession } from "../api/session";
import { Failure } from "../parts/notice";
import { useProjects } from "../shell/project";
import styles from "./operations.module.css";
import { SecretDialog } from "./secret-dialog";

type Role = Shapes["Role"];
const ROLES: { role: Role; means: string }[] = [
  { role: "viewer", means: "viewer: sees runs" },
  { role: "starter", means: "starter: starts processes" },
  { role: "operator", means: "operator: both, and scans" },
  { role: "admin", means: "admin: everything" },
];
const SPANS = [
  { span: "", label: "never" },
  { span: "12h", label: "in 12 hours" },
  { span: "7d", label: "in 7 days" },
  { span: "30d", label: "in 30 days" },
  { span: "365d", label: "in a year" },
];

/** The form. */
export function NewToken() {
  const client = useQueryClient();
  const projects = useProjects(useSession().data);
  const [made, setMade] = useState<Shapes["MadeToken"]>();
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("viewer");
  const [span, setSpan] = useState("30d");
  const [limited, setLimited] = useState<string[]>([]);
  const make = useMutation({
    mutationFn: () =>
      ask(
        api.POST("/api/internal/tokens", {
          body: { name, role, ...(span && { expires_in: span }), ...(limited.length > 0 && { projects: limited }) },
        }),
      ),
    // The answer holds the secret: nothing but the dialog keeps it.
    gcTime: 0,
  });
  const submit = () =>
    make.mutate(undefined, {
      onSuccess: (answer) => {
        setMade(answer);
        setName("");
        make.reset();
        client.invalidateQueries({ queryKey: ["tokens"] });
      },
    });
  return (
    <form
      className="card stack"
      aria-label="New token"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <h2>New token</h2>
      <div className={styles.form}>
        <label>
          Name
          <input value={name} maxLength={512} required onChange={(event) => setName(event.target.value)} />
        </label>
        <label>
          Role
          <select value={role} onChange={(event) => setRole(event.target.value as Role)}>
            {ROLES.map((one) => (
              <option key={one.role} value={one.role}>
                {one.means}
              </option>
            ))}
          </select>
        </label>
        <label>
          Expires
          <select value={span} onChange={(event) => setSpan(event.target.value)}>
            {SPANS.map((one) => (
              <option key={one.span} value={one.span}>
                {one.label}
              </option>
            ))}
          </select>
        </label>
        <fieldset className={styles.choices}>
          <legend>Only these projects (all if none is chosen)</legend>
          {projects.map((project) => (
            <label className="line" key={project}>
              <input
                type="checkbox"
                checked={limited.includes(project)}
                onChange={(event) =>
                  setLimited((now) => (event.target.checked ? [...now, project] : now.filter((one) => one !== project)))
                }
              />
              {project}
            </label>
          ))}
        </fieldset>
        <button type="submit" className="primary" disabled={make.isPending}>
          {make.isPending ? "Creating…" : "Create the token"}
        </button>
      </div>
      {make.isError && <Failure error={make.error} again={submit} />}
      {made && (
        <SecretDialog
          what={`the token ${made.name || made.id}`}
          secret={made.secret}
          onClose={() => setMade(undefined)}
        />
      )}
    </form>
  );
}
