/** Scans the platform now: it takes seconds, which are counted, and can be given up. */

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { ApiFault, api, ask } from "../api/client";
import { Failure } from "../parts/notice";
import styles from "./operations.module.css";

/** How long a scan takes at most, in seconds. */
const MOST_S = 10;

/** The button, and what became of it. */
export function ScanNow({ onDone }: { onDone: () => void }) {
  const client = useQueryClient();
  const ending = useRef<AbortController>(null);
  const scan = useMutation({
    mutationFn: () => {
      ending.current = new AbortController();
      return ask(api.GET("/api/platform/discover", { signal: ending.current.signal }));
    },
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ["scans"] });
      onDone();
    },
  });
  // Leaving the page cancels the wait.
  useEffect(() => () => ending.current?.abort(), []);
  const isGivenUp = scan.error instanceof DOMException;
  return (
    <div className="stack">
      <div className="row">
        <p className="grow soft">
          {scan.isPending && <Elapsed />}
          {isGivenUp && "You canceled the request; the scan can still appear in the list."}
          {scan.isSuccess && "Scanned just now."}
        </p>
        {scan.isPending && (
          <button type="button" onClick={() => ending.current?.abort()}>
            Cancel
          </button>
        )}
        <button type="button" className="primary" disabled={scan.isPending} onClick={() => scan.mutate()}>
          {scan.isPending ? "Scanning…" : "Scan now"}
        </button>
      </div>
      {scan.isError && !isGivenUp && (
        <>
          <Failure error={scan.error} again={() => scan.mutate()} />
          {scan.error instanceof ApiFault && scan.error.details !== undefined && (
            <pre className={styles.payload} dir="auto">
              {detailText(scan.error.details)}
            </pre>
          )}
        </>
      )}
    </div>
  );
}

function detailText(details: unknown): string {
  return typeof details === "string" ? details : JSON.stringify(details, null, 2);
}

function Elapsed() {
  const [began] = useState(() => Date.now());
  const [now, setNow] = useState(began);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 200);
    return () => clearInterval(timer);
  }, []);
  const seconds = (now - began) / 1000;
  return (
    <>
      <span className="unseen" role="status">
        Scanning
      </span>
      <progress className={styles.bar} max={MOST_S} value={seconds} aria-label="Scanning" />
      <span className="number">
        {seconds.toFixed(1)} s of {MOST_S} s at most
      </span>
    </>
  );
}
