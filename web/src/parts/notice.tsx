/** Notices instead of content: it loads, it failed, there is none. */

import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useEffect, useState } from "react";
import { ApiFault } from "../api/client";

/** After this time it is said. */
const SLOW_MS = 5_000;

/** Something is on its way. After some seconds it says so, and offers `again`: to repeat what has no answer yet. */
export function Loading({ what, again }: { what: string; again?: () => void }) {
  const client = useQueryClient();
  const [isSlow, setSlow] = useState(false);
  useEffect(() => {
    if (isSlow) return;
    const timer = setTimeout(() => setSlow(true), SLOW_MS);
    return () => clearTimeout(timer);
  }, [isSlow]);
  const repeat = async () => {
    setSlow(false);
    if (again) return again();
    // Without an answer so far, a request is only repeated once it is given up.
    await client.cancelQueries(PENDING, { silent: true });
    await client.refetchQueries(PENDING);
  };
  if (!isSlow) {
    return (
      <p className="soft pulse" role="status" style={{ padding: 20 }}>
        Loading {what}…
      </p>
    );
  }
  return (
    <div className="notice row" role="status">
      <span className="grow">
        Still loading {what} after {SLOW_MS / 1000} seconds.
      </span>
      <button type="button" onClick={repeat}>
        Try again
      </button>
    </div>
  );
}

const PENDING = {
  type: "active",
  predicate: (query: { state: { status: string } }) => query.state.status === "pending",
} as const;

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
