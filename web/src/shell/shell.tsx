/** The frame around every page: where one can go, who is signed in, which project is meant. */

import { Suspense } from "react";
import { NavLink, Outlet, useLocation } from "react-router";
import { hasRole, type Role, type Session, useEndOfSession, useSession, useSignOut } from "../api/session";
import { ErrorBoundary } from "../parts/error-boundary";
import { Failure, Loading } from "../parts/notice";
import { Away } from "./away";
import { ProjectChoice } from "./project";
import styles from "./shell.module.css";
import { SignIn } from "./sign-in";
import { ThemeChoice } from "./theme-choice";

const PLACES: { to: string; label: string; role: Role }[] = [
  { to: "/runs", label: "Runs", role: "viewer" },
  { to: "/calls", label: "Model calls", role: "viewer" },
  { to: "/threads", label: "Threads", role: "viewer" },
  { to: "/overview", label: "Overview", role: "viewer" },
  { to: "/datasets", label: "Datasets", role: "viewer" },
  { to: "/operations", label: "Operations", role: "starter" },
];

/** The frame; without a session, the sign-in page at the same address. */
export function Shell() {
  const session = useSession();
  if (session.isPending) return <Loading what="Spindle" />;
  // Who it was is known still: what is on the page stays while the server is away.
  if (session.isError && session.data === undefined)
    return <Failure error={session.error} again={() => session.refetch()} />;
  if (session.data === null) return <SignIn />;
  return <Frame session={session.data} />;
}

function Frame({ session }: { session: Session }) {
  useEndOfSession(session);
  const signOut = useSignOut();
  const { pathname, search } = useLocation();
  // The project goes along from page to page; other filters belong to their page.
  const project = new URLSearchParams(search).get("project_id");
  const suffix = project ? `?project_id=${encodeURIComponent(project)}` : "";
  return (
    <div className={styles.frame}>
      <a className={styles.skip} href="#main">
        Skip to the content
      </a>
      <header className={styles.side}>
        <NavLink className={styles.brand ?? ""} to={`/runs${suffix}`}>
          <img src="/favicon.svg" alt="" width="24" height="24" />
          Spindle
        </NavLink>
        <nav className={styles.places} aria-label="Pages">
          {PLACES.filter((place) => hasRole(session, place.role)).map((place) => (
            <NavLink key={place.to} to={place.to + suffix}>
              {place.label}
            </NavLink>
          ))}
        </nav>
        <div className={styles.foot}>
          <ProjectChoice session={session} />
          <ThemeChoice />
          <div className={`small ${styles.who}`}>
            <div className="clip" title={session.id}>
              {session.name}
            </div>
            <div className="soft">{session.roles.at(-1) ?? "no role"}</div>
          </div>
          <button type="button" onClick={() => signOut.mutate()} disabled={signOut.isPending}>
            Sign out
          </button>
          {signOut.isError && <Failure error={signOut.error} />}
        </div>
      </header>
      <main id="main" className={styles.main} tabIndex={-1}>
        <Away />
        <ErrorBoundary key={pathname}>
          <Suspense fallback={<Loading what="the page" again={() => window.location.reload()} />}>
            <Outlet />
          </Suspense>
        </ErrorBoundary>
      </main>
    </div>
  );
}
