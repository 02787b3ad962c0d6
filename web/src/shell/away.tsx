/** Says that the server is away while it is: what is on the page then is from before, and comes again by itself. */

import { useQueryClient } from "@tanstack/react-query";
import { useSyncExternalStore } from "react";
import { ApiFault } from "../api/client";
import styles from "./away.module.css";

/** The line; nothing while questions are answered. */
export function Away() {
  const cache = useQueryClient().getQueryCache();
  const reason = useSyncExternalStore(
    (changed) => cache.subscribe(changed),
    () => {
      const waiting = cache.findAll({ fetchStatus: "fetching" }).map((query) => query.state.fetchFailureReason);
      return waiting.find((error): error is ApiFault => error instanceof ApiFault && error.isPassing)?.message;
    },
  );
  return (
    <div role="status" className={styles.line}>
      {reason && <span>{reason} Trying again…</span>}
    </div>
  );
}
