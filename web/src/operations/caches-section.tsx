/** Caches of all processes, and clearing them. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, ask, type Shapes } from "../api/client";
import { bytes, count, duration, percent } from "../format";
import { Confirm } from "../parts/dialog";
import { Empty, Failure, Loading } from "../parts/notice";
import styles from "./operations.module.css";
import { WideTable } from "./wide-table";

type Cache = Shapes["NamedCache"];
/** How long a process may be silent before it does not count, as the server sees it. */
const SILENT_MS = 10_000;

/** The section. */
export function CachesSection() {
  const [asked, setAsked] = useState<Cache>();
  const [done, setDone] = useState<string>();
  const caches = useQuery({
    queryKey: ["caches"],
    queryFn: ({ signal }) => ask(api.GET("/api/internal/cache", { signal })),
    refetchInterval: 5_000,
  });
  return (
    <>
      <div aria-live="polite">{done && <p className="notice good">{done}</p>}</div>
      {caches.isPending && <Loading what="caches" />}
      {caches.isError && <Failure error={caches.error} again={() => caches.refetch()} />}
      {caches.data?.data.length === 0 && <Empty title="No caches" />}
      {caches.data?.data.map((cache) => (
        <CacheCard key={cache.name} cache={cache} onClear={() => setAsked(cache)} />
      ))}
      {asked && <ClearCache cache={asked} onDone={setDone} onClose={() => setAsked(undefined)} />}
    </>
  );
}

function CacheCard({ cache, onClear }: { cache: Cache; onClear: () => void }) {
  return (
    <section className="card stack" aria-label={cache.name}>
      <div className="row">
        <h2 className="grow mono">{cache.name}</h2>
        <button type="button" className="danger" onClick={onClear}>
          Clear<span className="unseen"> {cache.name}</span>
        </button>
      </div>
      <p className="soft">{cache.description}</p>
      <div className={styles.figures}>
        <div className={styles.figure}>
          Entries <strong>{count(cache.entries)}</strong>
        </div>
        <div className={styles.figure}>
          Hit rate <strong>{percent(cache.hit_rate)}</strong>
        </div>
        <div className={styles.figure}>
          Memory <strong>{bytes(cache.used_bytes)}</strong>
          <span className="soft small">of {bytes(cache.max_bytes)}</span>
        </div>
      </div>
      <WideTable
        label={`Parts of ${cache.name}`}
        heads={["Part", "Process", "Entries", "Hits", "Misses", "Hit rate", "Memory", "Last heartbeat"]}
        figures={["Entries", "Hits", "Misses", "Hit rate", "Memory"]}
      >
        {cache.parts.map((part) => (
          <tr key={part.process + part.name}>
            <td className="mono">{part.name}</td>
            <td>
              {part.role} <span className="soft small">{part.endpoint}</span>
            </td>
            <td className="number">{count(part.entries)}</td>
            <td className="number">{count(part.hits)}</td>
            <td className="number">{count(part.misses)}</td>
            <td className="number">{percent(part.hit_rate)}</td>
            <td className="number">
              {bytes(part.used_bytes)} <span className="soft small">of {bytes(part.max_bytes)}</span>
            </td>
            <td>
              {part.silent_ms > SILENT_MS ? (
                <span className="chip warn">no heartbeat for {duration(part.silent_ms / 1000)}, not counted</span>
              ) : (
                "now"
              )}
            </td>
          </tr>
        ))}
      </WideTable>
    </section>
  );
}

type ClearProps = { cache: Cache; onDone: (message: string) => void; onClose: () => void };

function ClearCache({ cache, onDone, onClose }: ClearProps) {
  const client = useQueryClient();
  const clear = useMutation({
    // The list says which names there are; the document knows the names of its version.
    mutationFn: () =>
      ask(api.POST("/api/internal/cache/clear", { body: { cacheNames: [cache.name as "svc:core:cache"] } })),
    onSuccess: (answer) => {
      onDone(`${cache.name}: ${answer.message}.`);
      client.invalidateQueries({ queryKey: ["caches"] });
      onClose();
    },
  });
  const processes = new Set(cache.parts.map((part) => part.process)).size;
  return (
    <Confirm
      title={`Clear ${cache.name}?`}
      yes={clear.isPending ? "Clearing…" : "Clear"}
      isPending={clear.isPending}
      onYes={() => clear.mutate()}
      onClose={onClose}
    >
      <p>
        {processes === 1 ? "The process empties" : `${processes} processes empty`} the caches and{" "}
        {processes === 1 ? "reads" : "read"} them again. Nothing is lost; the next look-ups are slower for a moment.
      </p>
      {clear.isError && <Failure error={clear.error} />}
    </Confirm>
  );
}
