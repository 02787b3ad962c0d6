/** One instance of a process. */

import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "react-router";
import { api, type Shapes } from "../api/client";
import { useRole } from "../api/session";
import { time } from "../format";
import { Failure, Loading } from "../parts/notice";
import { askExact } from "../payload/ask-exact";
import { Payload } from "../payload/payload";
import { runLink } from "../runs/run-link";
import { useProject } from "../shell/project";
import styles from "./operations.module.css";
import { buildLink } from "./process-link";
import { Fact } from "./scan-report";
import { WideTable } from "./wide-table";

/** The page. */
export function InstancePage() {
  const { uuid = "" } = useParams();
  const project = useProject();
  const seesRuns = useRole("viewer");
  const asked = useQuery({
    queryKey: ["instances", "one", uuid, project],
    queryFn: ({ signal }) => {
      const params = { path: { uuid }, query: project ? { project_id: project } : {} };
      return askExact<Shapes["Instance"]>(api.GET("/api/platform/process/{uuid}", { params, signal, parseAs: "text" }));
    },
  });
  if (asked.isPending) return <Loading what="the instance" />;
  if (asked.isError) return <Failure error={asked.error} again={() => asked.refetch()} />;
  const instance = asked.data;
  const belongs = instance.projectId ?? project;
  const run = { run_id: instance.uuid, app_id: instance.applicationId, project_id: belongs };
  return (
    <>
      <section className="card stack" aria-label="Instance">
        <div className="row">
          <h2 className="grow" dir="auto">
            {instance.processDefinitionName}
          </h2>
          <span className="chip info">{instance.state}</span>
          {seesRuns && (
            <Link className="button" to={runLink(run)}>
              Show its run
            </Link>
          )}
        </div>
        <dl className={styles.facts}>
          <Fact name="Instance">
            <code>{instance.uuid}</code>
          </Fact>
          <Fact name="Number">{instance.instanceMetadata.processInstanceId}</Fact>
          <Fact name="App">{instance.applicationId}</Fact>
          <Fact name="Build">
            <Link to={buildLink(instance.applicationId, instance.buildId, belongs)}>{instance.buildId}</Link> (
            {instance.buildStatusAtStart} at the start)
          </Fact>
          <Fact name="Definition">{instance.processDefinitionFlowxUuid}</Fact>
          {belongs && <Fact name="Project">{belongs}</Fact>}
          <Fact name="Started">
            {time(instance.startedAt)} by {instance.startedBy} from {instance.platform}
          </Fact>
        </dl>
      </section>
      <section className="card stack" aria-label="Tokens">
        <h3>Tokens</h3>
        <WideTable label="Tokens" heads={["Token", "State", "Node", "At the node"]}>
          {instance.tokens.map((token) => (
            <tr key={token.id}>
              <td className="mono">{token.id}</td>
              <td>{token.state}</td>
              <td dir="auto">{token.currentNode ?? <span className="soft">none</span>}</td>
              <td>{token.statusCurrentNode}</td>
            </tr>
          ))}
        </WideTable>
      </section>
      <div className="card">
        {instance.input ? (
          <Payload value={instance.input} label="Input" />
        ) : (
          <p className="soft">The input is visible to users who can read runs, and to the user who started it.</p>
        )}
      </div>
    </>
  );
}
