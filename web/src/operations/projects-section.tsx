/** Projects: which there are, new ones, and their settings. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, ask, type Shapes } from "../api/client";
import { time } from "../format";
import { Dialog } from "../parts/dialog";
import { FormEnd } from "../parts/form-end";
import { Failure, Loading } from "../parts/notice";
import styles from "./operations.module.css";
import { WideTable } from "./wide-table";

type Project = Shapes["Project"];

/** The section. */
export function ProjectsSection() {
  const [editing, setEditing] = useState<Project | "new">();
  const projects = useQuery({
    queryKey: ["projects"],
    queryFn: ({ signal }) => ask(api.GET("/api/internal/projects", { signal })),
  });
  return (
    <>
      <div className="row">
        <p className="grow soft">
          Keys belong to projects, tokens can be limited to projects, and each project has its own retention.
        </p>
        <button type="button" className="primary" onClick={() => setEditing("new")}>
          New project
        </button>
      </div>
      {projects.isPending && <Loading what="projects" />}
      {projects.isError && <Failure error={projects.error} again={() => projects.refetch()} />}
      {projects.data && (
        <section className="card">
          <WideTable
            label="Projects"
            heads={["Project", "Default app", "Apps accepted without a key", "Retention", "Created", ""]}
          >
            {projects.data.data.map((project) => (
              <tr key={project.project_id}>
                <td>{project.project_id}</td>
                <td dir="auto">{project.default_app}</td>
                <td>
                  {project.keyless_app_ids.length === 0 ? (
                    <span className="soft">none</span>
                  ) : (
                    project.keyless_app_ids.map((app) => (
                      <bdi key={app} className="chip warn">
                        {app}
                      </bdi>
                    ))
                  )}
                </td>
                <td>{project.retention_days === 0 ? "for ever" : `${project.retention_days} days`}</td>
                <td className={styles.time}>{time(project.created_at)}</td>
                <td>
                  <button type="button" onClick={() => setEditing(project)}>
                    Edit<span className="unseen"> {project.project_id}</span>
                  </button>
                </td>
              </tr>
            ))}
          </WideTable>
        </section>
      )}
      {editing && <ProjectForm of={editing === "new" ? undefined : editing} onClose={() => setEditing(undefined)} />}
    </>
  );
}

function ProjectForm({ of, onClose }: { of: Project | undefined; onClose: () => void }) {
  const client = useQueryClient();
  const [id, setId] = useState(of?.project_id ?? "");
  const [app, setApp] = useState(of?.default_app ?? "default");
  const [keyless, setKeyless] = useState(of?.keyless_app_ids.join("\n") ?? "");
  const [days, setDays] = useState(String(of?.retention_days ?? 30));
  const save = useMutation({
    mutationFn: () =>
      ask(
        api.POST("/api/internal/projects", {
          body: {
            project_id: id,
            default_app: app,
            keyless_app_ids: keyless
              .split("\n")
              .map((line) => line.trim())
              .filter((line) => line !== ""),
            retention_days: Number(days),
          },
        }),
      ),
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ["projects"] });
      onClose();
    },
  });
  const shorter = of && Number(days) > 0 && (of.retention_days === 0 || Number(days) < of.retention_days);
  return (
    <Dialog title={of ? `Project ${of.project_id}` : "New project"} onClose={onClose}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate();
        }}
      >
        {!of && (
          <label>
            Id (a-z, 0-9 and -)
            <input
              value={id}
              required
              pattern="[a-z0-9\-]{1,64}"
              maxLength={64}
              spellCheck={false}
              onChange={(event) => setId(event.target.value)}
            />
          </label>
        )}
        <label>
          Default app (of events without an app)
          <input value={app} required maxLength={256} dir="auto" onChange={(event) => setApp(event.target.value)} />
        </label>
        <label>
          Days after which data is dropped (0: never)
          <input
            type="number"
            min={0}
            max={36500}
            required
            value={days}
            onChange={(event) => setDays(event.target.value)}
          />
        </label>
        {shorter && (
          <p className="notice warn">The next retention deletes older data permanently, except saved runs.</p>
        )}
        <label>
          Apps whose events are accepted without a key, one per line
          <textarea
            rows={3}
            value={keyless}
            spellCheck={false}
            dir="auto"
            onChange={(event) => setKeyless(event.target.value)}
          />
        </label>
        {keyless.trim() !== "" && (
          <p className="notice warn">Every client that knows the name of such an app can report events for it.</p>
        )}
        <FormEnd error={save.error} isPending={save.isPending} verb="Save" meanwhile="Saving…" onCancel={onClose} />
      </form>
    </Dialog>
  );
}
