/** One build: what can be started in it, and starting it. */

import { useQuery } from "@tanstack/react-query";
import { Link, useSearchParams } from "react-router";
import { api, type Shapes } from "../api/client";
import { useRole } from "../api/session";
import { time } from "../format";
import { Empty, Failure, Loading } from "../parts/notice";
import { askExact } from "../payload/ask-exact";
import { Payload } from "../payload/payload";
import styles from "./operations.module.css";
import { registerLink } from "./process-link";
import { Fact } from "./scan-report";
import { StartForm } from "./start-form";

/** A build by its name, which several projects may have. */
export function useBuild(app: string, build: string, project: string | undefined) {
  return useQuery({
    queryKey: ["build", app, build, project],
    queryFn: ({ signal }) => {
      const params = { path: { appId: app, buildId: build }, query: project ? { project_id: project } : {} };
      return askExact<Shapes["Build"]>(
        api.GET("/api/platform/app/{appId}/build/{buildId}", { params, signal, parseAs: "text" }),
      );
    },
    enabled: app !== "" && build !== "",
  });
}

/** The page. `start` in the address opens the form of a process. */
export function BuildPage() {
  const [params, setParams] = useSearchParams();
  const isAdmin = useRole("admin");
  const [app, id] = [params.get("app_id") ?? "", params.get("build_id") ?? ""];
  const asked = useBuild(app, id, params.get("project_id") ?? undefined);
  const starting = params.get("start");
  const open = (name: string | undefined) =>
    setParams((now) => {
      const next = new URLSearchParams(now);
      if (name) next.set("start", name);
      else next.delete("start");
      return next;
    });
  if (!app || !id) return <Empty title="Build not found">The address has no app or build.</Empty>;
  if (asked.isPending) return <Loading what="the build" />;
  if (asked.isError) return <Failure error={asked.error} again={() => asked.refetch()} />;
  const build = asked.data;
  return (
    <>
      <section className="card stack" aria-label="Build">
        <div className="row">
          <h2 className="grow">
            Build <bdi>{build.buildId}</bdi> of <bdi>{build.appId}</bdi>
          </h2>
          {isAdmin && (
            <Link className="button" to={registerLink(build.appId, build.buildId, build.projectId)}>
              Replace it
            </Link>
          )}
        </div>
        <dl className={styles.facts}>
          <Fact name="Status">{build.status}</Fact>
          <Fact name="Project">{build.projectId}</Fact>
          {build.workspaceId && <Fact name="Workspace">{build.workspaceId}</Fact>}
          {build.parentApplicationId && <Fact name="Parent application">{build.parentApplicationId}</Fact>}
          {build.rootApplicationId && <Fact name="Root application">{build.rootApplicationId}</Fact>}
          <Fact name="Registered">
            {time(build.changedAt)} by {build.changedBy}
          </Fact>
        </dl>
      </section>
      {build.processes.length === 0 && <Empty title="This build has no processes" />}
      {build.processes.map((process) => (
        <ProcessCard
          key={process.name}
          build={build}
          process={process}
          isOpen={starting === process.name}
          onOpen={(isOpen) => open(isOpen ? process.name : undefined)}
        />
      ))}
    </>
  );
}

type CardProps = {
  build: Shapes["Build"];
  process: Shapes["Process"];
  isOpen: boolean;
  onOpen: (isOpen: boolean) => void;
};

function ProcessCard({ build, process, isOpen, onOpen }: CardProps) {
  return (
    <section className="card stack" aria-label={process.name}>
      <div className="row">
        <h3 className="grow" dir="auto">
          {process.name}
        </h3>
        <button
          type="button"
          className={isOpen ? "" : "primary"}
          aria-expanded={isOpen}
          onClick={() => onOpen(!isOpen)}
        >
          {isOpen ? "Close the form" : "Start"}
          <span className="unseen"> of {process.name}</span>
        </button>
      </div>
      {isOpen && <StartForm build={build} process={process} />}
      <dl className={styles.facts}>
        <Fact name="Identifier">{process.uuid}</Fact>
        <Fact name="Starts at">{process.startNodes.join(", ") || "one token, no node"}</Fact>
        <Fact name="Can be started by">{process.roles.join(", ") || "all roles that can start processes"}</Fact>
      </dl>
      <Payload value={process.schema} label="Schema of the input" />
    </section>
  );
}
