/** The selected project, where the user reaches several. It is part of the address (`project_id`). */

import { useQuery } from "@tanstack/react-query";
import { useSearchParams } from "react-router";
import { api, ask } from "../api/client";
import { hasRole, type Session } from "../api/session";
import styles from "./shell.module.css";

/** The project in the address. */
export function useProject(): string | undefined {
  const [params] = useSearchParams();
  return params.get("project_id") ?? undefined;
}

/** Projects to choose from: the projects of the token, and for administrators all. */
export function useProjects(session: Session | null | undefined): string[] {
  const asked = useQuery({
    queryKey: ["projects"],
    queryFn: () => ask(api.GET("/api/internal/projects")),
    enabled: hasRole(session, "admin"),
    staleTime: 60_000,
  });
  return asked.data?.data.map((project) => project.project_id) ?? session?.projects ?? [];
}

/** The control; nothing where there is no choice. */
export function ProjectChoice({ session }: { session: Session }) {
  const [params, setParams] = useSearchParams();
  const projects = useProjects(session);
  const chosen = params.get("project_id") ?? "";
  if (projects.length < 2 && !chosen) return null;
  const known = chosen && !projects.includes(chosen) ? [chosen, ...projects] : projects;
  return (
    <label>
      <span className={styles.text}>Project</span>
      <select
        value={chosen}
        onChange={(event) =>
          setParams((now) => {
            const next = new URLSearchParams(now);
            if (event.target.value) next.set("project_id", event.target.value);
            else next.delete("project_id");
            return next;
          })
        }
      >
        <option value="">All projects</option>
        {known.map((project) => (
          <option key={project}>{project}</option>
        ))}
      </select>
    </label>
  );
}
