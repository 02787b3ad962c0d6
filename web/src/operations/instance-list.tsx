/** Instances of processes, newest first, page after page. */

import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useSearchParams } from "react-router";
import { api, ask } from "../api/client";
import { time } from "../format";
import { Empty, Failure, Loading } from "../parts/notice";
import styles from "./operations.module.css";
import { instanceLink } from "./process-link";
import { WideTable } from "./wide-table";

const FILTERS = [
  { name: "app_id", label: "App" },
  { name: "build_id", label: "Build" },
  { name: "name", label: "Process" },
  { name: "from", label: "Started from (ISO 8601)" },
  { name: "to", label: "Started until" },
] as const;

/** The list and its filter, which is in the address. `apps` are suggested. */
export function InstanceList({ apps }: { apps: string }) {
  const [params, setParams] = useSearchParams();
  const project = params.get("project_id");
  const given = FILTERS.flatMap(({ name }) => {
    const value = params.get(name);
    return value ? [[name, value] as const] : [];
  });
  const query = { ...Object.fromEntries(given), ...(project ? { project_id: project } : {}) };
  const instances = useInfiniteQuery({
    queryKey: ["instances", query],
    queryFn: ({ pageParam, signal }) => {
      const asked = pageParam ? { ...query, cursor: pageParam } : query;
      return ask(api.GET("/api/platform/process", { params: { query: asked }, signal }));
    },
    initialPageParam: "",
    getNextPageParam: (page) => page.next_cursor ?? undefined,
  });
  const rows = instances.data?.pages.flatMap((page) => page.data) ?? [];
  return (
    <section className="card stack" aria-label="Instances">
      <h2>Instances</h2>
      <FilterForm
        key={JSON.stringify(given)}
        given={Object.fromEntries(given)}
        apps={apps}
        onSet={(filter) =>
          setParams((now) => {
            const next = new URLSearchParams(now);
            for (const { name } of FILTERS) {
              const value = filter[name]?.trim();
              if (value) next.set(name, value);
              else next.delete(name);
            }
            return next;
          })
        }
      />
      {instances.isPending && <Loading what="instances" />}
      {instances.isError && <Failure error={instances.error} again={() => instances.refetch()} />}
      {instances.isSuccess && rows.length === 0 && (
        <Empty title="No instances">
          <p>
            {given.length > 0
              ? "No instance matches the filter."
              : "No process was started yet. Open a build above, or register one, and start one of its processes."}
          </p>
        </Empty>
      )}
      {rows.length > 0 && (
        <WideTable
          label="Instances"
          heads={["Process", "App", "Build", "Project", "State", "Started", "By", "Instance"]}
        >
          {rows.map((one) => (
            <tr key={one.uuid}>
              <td dir="auto">{one.processDefinitionName}</td>
              <td dir="auto">{one.applicationId}</td>
              <td dir="auto">{one.buildId}</td>
              <td>{one.projectId ?? project ?? "–"}</td>
              <td>{one.state}</td>
              <td className={styles.time}>{time(one.startedAt)}</td>
              <td dir="auto">{one.startedBy}</td>
              <td>
                <Link className="mono" to={instanceLink(one.uuid, one.projectId ?? project)}>
                  {one.uuid.slice(0, 8)}
                  <span className="unseen"> instance {one.uuid}</span>
                </Link>
              </td>
            </tr>
          ))}
        </WideTable>
      )}
      {instances.hasNextPage && (
        <button type="button" disabled={instances.isFetchingNextPage} onClick={() => instances.fetchNextPage()}>
          {instances.isFetchingNextPage ? "Loading…" : "Older instances"}
        </button>
      )}
    </section>
  );
}

type Filter = Partial<Record<(typeof FILTERS)[number]["name"], string>>;
type FormProps = { given: Filter; apps: string; onSet: (filter: Filter) => void };

function FilterForm({ given, apps, onSet }: FormProps) {
  const [filter, setFilter] = useState(given);
  return (
    <form
      className={styles.form}
      aria-label="Filter of instances"
      onSubmit={(event) => {
        event.preventDefault();
        onSet(filter);
      }}
    >
      {FILTERS.map(({ name, label }) => (
        <label key={name}>
          {label}
          <input
            value={filter[name] ?? ""}
            list={name === "app_id" ? apps : undefined}
            maxLength={256}
            dir="auto"
            onChange={(event) => setFilter((now) => ({ ...now, [name]: event.target.value }))}
          />
        </label>
      ))}
      <button type="submit">Filter</button>
      {Object.keys(given).length > 0 && (
        <button type="button" className="quiet" onClick={() => onSet({})}>
          Clear the filter
        </button>
      )}
    </form>
  );
}
