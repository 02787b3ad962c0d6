/** Processes: builds of an app, what was started, and starting something. */

import { useQuery } from "@tanstack/react-query";
import { useId, useState } from "react";
import { Link, Route, Routes, useLocation, useSearchParams } from "react-router";
import { api, ask } from "../api/client";
import { hasRole, useRole, useSession } from "../api/session";
import { time } from "../format";
import { Empty, Failure, Loading } from "../parts/notice";
import { useProject } from "../shell/project";
import { RegisterPage } from "./build-form";
import { BuildPage } from "./build-page";
import { InstanceList } from "./instance-list";
import { InstancePage } from "./instance-page";
import styles from "./operations.module.css";
import { buildLink, registerLink } from "./process-link";
import { WideTable } from "./wide-table";

/** The section and its pages. */
export function ProcessesSection() {
  const { pathname } = useLocation();
  const project = useProject();
  const isPart = !pathname.replace(/\/$/, "").endsWith("/processes");
  return (
    <>
      {isPart && (
        <Link to={`/operations/processes${project ? `?project_id=${encodeURIComponent(project)}` : ""}`}>
          ← All builds and instances
        </Link>
      )}
      <Routes>
        <Route index element={<Overview />} />
        <Route path="build" element={<BuildPage />} />
        <Route path="register" element={<RegisterPage />} />
        <Route path="instance/:uuid" element={<InstancePage />} />
        <Route path="*" element={<Empty title="Page not found" />} />
      </Routes>
    </>
  );
}

/** Apps to choose from: of projects, of what was started, and of what was reported; as far as the user may see them. */
function useApps(): string[] {
  const session = useSession().data;
  const project = useProject();
  const of = project ? { project_id: project } : {};
  const projects = useQuery({
    queryKey: ["projects"],
    queryFn: ({ signal }) => ask(api.GET("/api/internal/projects", { signal })),
    enabled: hasRole(session, "admin"),
    staleTime: 60_000,
  });
  const started = useQuery({
    queryKey: ["instances", "apps", project],
    queryFn: ({ signal }) =>
      ask(api.GET("/api/platform/process", { params: { query: { ...of, limit: 200 } }, signal })),
    staleTime: 60_000,
  });
  const reported = useQuery({
    queryKey: ["facets", "apps", project],
    queryFn: ({ signal }) => ask(api.GET("/api/run/facets", { params: { query: of as object }, signal })),
    enabled: hasRole(session, "viewer"),
    staleTime: 60_000,
  });
  const all = [
    ...(started.data?.data.map((one) => one.applicationId) ?? []),
    ...(projects.data?.data.map((one) => one.default_app) ?? []),
    ...(reported.data?.facets.app_id?.values.map((one) => String(one.value)) ?? []),
  ];
  return [...new Set(all)].filter((app) => app !== "");
}

function Overview() {
  const apps = useApps();
  const list = useId();
  const isAdmin = useRole("admin");
  const [params, setParams] = useSearchParams();
  const project = useProject();
  const app = params.get("app_id") ?? "";
  return (
    <>
      <datalist id={list}>
        {apps.map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
      <section className="card stack" aria-label="Builds">
        <div className="row">
          <h2 className="grow">Builds</h2>
          {isAdmin && (
            <Link className="button" to={registerLink(app, "", project)}>
              Register a build
            </Link>
          )}
        </div>
        <AppForm
          key={app}
          app={app}
          list={list}
          onSet={(chosen) =>
            setParams((now) => {
              const next = new URLSearchParams(now);
              if (chosen) next.set("app_id", chosen);
              else next.delete("app_id");
              return next;
            })
          }
        />
        {!app && apps.length > 0 && (
          <div className={styles.chips}>
            {apps.slice(0, 12).map((one) => (
              <Link key={one} className="chip" to={`?${new URLSearchParams([...params, ["app_id", one]])}`}>
                <bdi>{one}</bdi>
              </Link>
            ))}
          </div>
        )}
        {app && <Builds app={app} />}
      </section>
      <InstanceList apps={list} />
    </>
  );
}

function AppForm({ app, list, onSet }: { app: string; list: string; onSet: (app: string) => void }) {
  const [text, setText] = useState(app);
  return (
    <form
      className="row"
      aria-label="App of the builds"
      onSubmit={(event) => {
        event.preventDefault();
        onSet(text.trim());
      }}
    >
      <label>
        App
        <input value={text} list={list} maxLength={256} dir="auto" onChange={(event) => setText(event.target.value)} />
      </label>
      <button type="submit" className={styles.beside}>
        Show its builds
      </button>
    </form>
  );
}

function Builds({ app }: { app: string }) {
  const project = useProject();
  const builds = useQuery({
    queryKey: ["builds", app, project],
    queryFn: ({ signal }) => {
      const params = { path: { appId: app }, query: project ? { project_id: project } : {} };
      return ask(api.GET("/api/platform/app/{appId}/build", { params, signal }));
    },
  });
  if (builds.isPending) return <Loading what="builds" />;
  if (builds.isError) return <Failure error={builds.error} again={() => builds.refetch()} />;
  if (builds.data.data.length === 0) return <p className="soft">This app has no registered builds.</p>;
  return (
    <>
      <WideTable label="Builds" heads={["Build", "Status", "Processes", "Project", "Registered", "By"]}>
        {builds.data.data.map((build) => (
          <tr key={`${build.projectId} ${build.buildId}`}>
            <td dir="auto">
              <Link to={buildLink(build.appId, build.buildId, build.projectId)}>{build.buildId}</Link>
            </td>
            <td>{build.status}</td>
            <td>
              <span className={styles.chips}>
                {build.processes.map((name) => (
                  <Link key={name} className="chip" to={buildLink(build.appId, build.buildId, build.projectId, name)}>
                    <bdi>{name}</bdi>
                  </Link>
                ))}
              </span>
            </td>
            <td>{build.projectId}</td>
            <td className={styles.time}>{time(build.changedAt)}</td>
            <td dir="auto">{build.changedBy}</td>
          </tr>
        ))}
      </WideTable>
      {builds.data.truncated && <p className="soft">There are more builds; these are the newest.</p>}
    </>
  );
}
