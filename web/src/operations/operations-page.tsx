/** Operations: sections with addresses of their own, each shown to those whose role may use it. */

import type { ComponentType } from "react";
import { Link, Navigate, NavLink, Route, Routes, useLocation } from "react-router";
import { hasRole, type Role, useSession } from "../api/session";
import { Empty } from "../parts/notice";
import { Page } from "../parts/page";
import { CachesSection } from "./caches-section";
import { JobsSection } from "./jobs-section";
import { KeysSection } from "./keys-section";
import styles from "./operations.module.css";
import { PipelineSection } from "./pipeline-section";
import { PricesSection } from "./prices-section";
import { ProcessesSection } from "./processes-section";
import { ProjectsSection } from "./projects-section";
import { ServicesSection } from "./services-section";
import { TokensSection } from "./tokens-section";

type Section = { path: string; label: string; role: Role; section: ComponentType };

const SECTIONS: Section[] = [
  { path: "services", label: "Services", role: "operator", section: ServicesSection },
  { path: "pipeline", label: "Pipeline", role: "operator", section: PipelineSection },
  { path: "processes", label: "Processes", role: "starter", section: ProcessesSection },
  { path: "caches", label: "Caches", role: "admin", section: CachesSection },
  { path: "prices", label: "Prices", role: "admin", section: PricesSection },
  { path: "jobs", label: "Jobs", role: "admin", section: JobsSection },
  { path: "keys", label: "API keys", role: "admin", section: KeysSection },
  { path: "tokens", label: "Tokens", role: "admin", section: TokensSection },
  { path: "projects", label: "Projects", role: "admin", section: ProjectsSection },
];

/** The sections, of which one is looked at. */
export default function OperationsPage() {
  const session = useSession().data;
  const { search } = useLocation();
  const project = new URLSearchParams(search).get("project_id");
  const suffix = project ? `?project_id=${encodeURIComponent(project)}` : "";
  const allowed = SECTIONS.filter((section) => hasRole(session, section.role));
  const first = allowed[0];
  if (!first) {
    return (
      <Page title="Operations">
        <NotAllowed what="Operations are" needs="starter" />
      </Page>
    );
  }
  return (
    <Page title="Operations">
      <nav className={styles.tabs} aria-label="Sections">
        {allowed.map((section) => (
          <NavLink key={section.path} to={`/operations/${section.path}${suffix}`}>
            {section.label}
          </NavLink>
        ))}
      </nav>
      <Routes>
        <Route index element={<Navigate to={`/operations/${first.path}${suffix}`} replace />} />
        {SECTIONS.map(({ path, label, role, section: Section }) => (
          <Route
            key={path}
            path={`${path}/*`}
            element={hasRole(session, role) ? <Section /> : <NotAllowed what={`${label} are`} needs={role} />}
          />
        ))}
        <Route
          path="*"
          element={
            <Empty title="Section not found">
              <Link to={`/operations/${first.path}${suffix}`}>Go to {first.label.toLowerCase()}.</Link>
            </Empty>
          }
        />
      </Routes>
    </Page>
  );
}

function NotAllowed({ what, needs }: { what: string; needs: Role }) {
  return (
    <Empty title="Access denied">
      <p>
        {what} for the role <strong>{needs}</strong> and above. An administrator can create a token with it.
      </p>
    </Empty>
  );
}
