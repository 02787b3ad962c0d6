/** Notices instead of content: it loads, it failed, there is none. */

import type { ReactNode } from "react";
import { ApiFault } from "../api/client";

/** Something is on its way. */
export function Loading({ what }: { what: string }) {
  return (
    <p className="soft pulse" role="status" style={{ padding: 20 }}>
      Loading {what}…
    </p>
  );
}

/** Something failed, in the server's own words, and how to try again. */
export function Failure({ error, again }: { error: unknown; again?: () => void }) {
  const message = error instanceof Error ? error.message : "Something failed.";
  return (
    <div className="notice bad row" role="alert">
      <span className="grow">
        {message}
        {error instanceof ApiFault && error.status > 0 && <span className="soft small"> ({error.status})</span>}
      </span>
      {again && (
        <button type="button" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}

/** There is nothing here, and why or what to do. */
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="card stack" style={{ alignItems: "center", padding: 36, textAlign: "center" }}>
      <h2>{title}</h2>
      {children}
    </div>
  );
}
