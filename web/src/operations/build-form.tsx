/** Registers a build, or replaces one. */

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useNavigate, useSearchParams } from "react-router";
import { api, ask, type Shapes } from "../api/client";
import { useRole, useSession } from "../api/session";
import { Empty, Failure, Loading } from "../parts/notice";
import { writeExact } from "../payload/exact-json";
import { useProjects } from "../shell/project";
import { useBuild } from "./build-page";
import { JsonEditor, syntaxFault, type TextFault } from "./json-editor";
import { nodeAt, placeOf, readJson, wordedSteps } from "./json-text";
import styles from "./operations.module.css";
import { buildLink } from "./process-link";

const EXAMPLE = {
  status: "COMMITTED",
  processes: [
    {
      name: "Order",
      schema: { type: "object", required: ["key1"], properties: { key1: { type: "string" } } },
      startNodes: ["received"],
    },
  ],
};

/** The page. The build in the address, if it is registered, is what one begins with. */
export function RegisterPage() {
  const [params] = useSearchParams();
  const isAdmin = useRole("admin");
  const [app, id] = [params.get("app_id") ?? "", params.get("build_id") ?? ""];
  const project = params.get("project_id") ?? undefined;
  const before = useBuild(app, id, project);
  if (!isAdmin) {
    return (
      <Empty title="Access denied">
        <p>
          Registering a build needs the role <strong>admin</strong>.
        </p>
      </Empty>
    );
  }
  // One that is not there is made.
  if (before.isLoading) return <Loading what="the build" />;
  return <BuildForm app={app} id={id} project={project} text={bodyText(before.data)} />;
}

function bodyText(build: Shapes["Build"] | undefined): string {
  if (!build) return JSON.stringify(EXAMPLE, null, 2);
  const { status, workspaceId, parentApplicationId, rootApplicationId, processes } = build;
  const more = Object.entries({ workspaceId, parentApplicationId, rootApplicationId }).filter(([, value]) => value);
  return writeExact({ status, ...Object.fromEntries(more), processes }, 2);
}

/** Where in the text the server's words point. */
function worded(text: string, message: string): TextFault | undefined {
  const place = / at line (\d+) column (\d+)$/.exec(message);
  if (place) return { message, at: placeOf(text, Number(place[1]), Number(place[2])) };
  const steps = wordedSteps(message);
  return steps.length > 0 ? { message, at: nodeAt(readJson(text), steps).at } : undefined;
}

type FormProps = { app: string; id: string; project: string | undefined; text: string };

function BuildForm(props: FormProps) {
  const client = useQueryClient();
  const navigate = useNavigate();
  const projects = useProjects(useSession().data);
  const [app, setApp] = useState(props.app);
  const [id, setId] = useState(props.id);
  const [project, setProject] = useState(props.project ?? "");
  const [text, setText] = useState(props.text);
  const put = useMutation({
    mutationFn: () =>
      ask(
        api.PUT("/api/platform/app/{appId}/build/{buildId}", {
          params: { path: { appId: app, buildId: id }, query: project ? { project_id: project } : {} },
          // As it was written, so that places in the answer are places in the field.
          body: text as never,
          bodySerializer: (written) => written as unknown as string,
        }),
      ),
    onSuccess: async (build) => {
      await client.invalidateQueries({ queryKey: ["build"] });
      await client.invalidateQueries({ queryKey: ["builds"] });
      navigate(buildLink(build.appId, build.buildId, build.projectId));
    },
  });
  const fault = syntaxFault(text);
  const said = put.error && !fault ? worded(text, put.error.message) : undefined;
  const faults = [fault, said].filter((one) => one !== undefined);
  return (
    <form
      className="card stack"
      aria-label="Register a build"
      onSubmit={(event) => {
        event.preventDefault();
        if (!fault) put.mutate();
      }}
    >
      <h2>{props.id ? "Replace a build" : "Register a build"}</h2>
      <p className="soft">A build with the same app and id is replaced. Started instances do not change.</p>
      <div className={styles.form}>
        <label>
          App
          <input value={app} required maxLength={256} dir="auto" onChange={(event) => setApp(event.target.value)} />
        </label>
        <label>
          Build
          <input value={id} required maxLength={256} dir="auto" onChange={(event) => setId(event.target.value)} />
        </label>
        <label>
          Project
          <select value={project} onChange={(event) => setProject(event.target.value)}>
            <option value="">the only one, or default</option>
            {[...new Set([...projects, ...(project ? [project] : [])])].map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </label>
      </div>
      <JsonEditor
        label="Status and processes (JSON)"
        text={text}
        faults={faults}
        onChange={(next) => {
          setText(next);
          if (put.isError) put.reset();
        }}
      />
      {put.isError && !said && <Failure error={put.error} />}
      <div className="row">
        <button type="submit" className="primary" disabled={put.isPending || fault !== undefined}>
          {put.isPending ? "Registering…" : "Register"}
        </button>
        <button type="button" onClick={() => navigate(-1)}>
          Cancel
        </button>
      </div>
    </form>
  );
}
