/** Services and infrastructure as the last scan found them, a new scan, and the scans before. */

import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useSearchParams } from "react-router";
import { api, ask } from "../api/client";
import { time } from "../format";
import { Empty, Failure, Loading } from "../parts/notice";
import styles from "./operations.module.css";
import { differences } from "./scan-difference";
import { ScanNow } from "./scan-now";
import { Health, ScanReport } from "./scan-report";
import { WideTable } from "./wide-table";

function useScan(id: string | undefined) {
  return useQuery({
    queryKey: ["scan", id],
    queryFn: ({ signal }) => ask(api.GET("/api/platform/scan/{id}", { params: { path: { id: id ?? "" } }, signal })),
    enabled: id !== undefined,
    staleTime: Number.POSITIVE_INFINITY,
  });
}

/** The section. `scan` and `against` in the address choose what is shown. */
export function ServicesSection() {
  const [params, setParams] = useSearchParams();
  const scans = useInfiniteQuery({
    queryKey: ["scans"],
    queryFn: ({ pageParam, signal }) =>
      ask(api.GET("/api/platform/scan", { params: { query: pageParam ? { cursor: pageParam } : {} }, signal })),
    initialPageParam: "",
    getNextPageParam: (page) => page.next_cursor ?? undefined,
  });
  const entries = scans.data?.pages.flatMap((page) => page.data) ?? [];
  const chosen = params.get("scan") ?? entries[0]?.id;
  const scan = useScan(chosen);
  const other = params.get("against") ?? undefined;
  const choose = (name: "scan" | "against", id: string | undefined) =>
    setParams((now) => {
      const next = new URLSearchParams(now);
      if (id) next.set(name, id);
      else next.delete(name);
      return next;
    });
  return (
    <>
      <ScanNow onDone={() => choose("scan", undefined)} />
      {scans.isPending && <Loading what="scans" />}
      {scans.isError && <Failure error={scans.error} again={() => scans.refetch()} />}
      {scans.isSuccess && !chosen && (
        <Empty title="No scan yet">
          <p>A scan probes all services and the infrastructure. It takes at most ten seconds.</p>
        </Empty>
      )}
      {scan.isError && <Failure error={scan.error} again={() => scan.refetch()} />}
      {chosen && scan.isPending && !scan.isError && <Loading what="the scan" />}
      {scan.data && (
        <>
          <p className="soft">
            {chosen === entries[0]?.id ? "The newest scan" : "An earlier scan"}, {time(scan.data.report.scanTimestamp)},
            requested by <bdi>{scan.data.scannedBy}</bdi>.
          </p>
          {other && <Against before={other} after={scan.data.id} onClose={() => choose("against", undefined)} />}
          <ScanReport report={scan.data.report} />
        </>
      )}
      {entries.length > 0 && (
        <section className="card stack" aria-label="Scans">
          <h2>Scans of the last 90 days</h2>
          <WideTable label="Scans" heads={["When", "By", "State", "Healthy", "Issues", "New", "Changed", "Took", ""]}>
            {entries.map((entry) => (
              <tr key={entry.id} aria-current={entry.id === chosen || undefined}>
                <td className={styles.time}>{time(entry.scanTimestamp)}</td>
                <td dir="auto">{entry.scannedBy}</td>
                <td>
                  <Health status={(entry.unhealthyServices ?? 0) > 0 ? "unhealthy" : "healthy"} />
                </td>
                <td>
                  {entry.healthyServices} of {entry.totalServices}
                </td>
                <td>{entry.summary?.issuesDetected}</td>
                <td>{entry.summary?.newServicesFound}</td>
                <td>{entry.summary?.configurationChanges}</td>
                <td>{entry.summary?.scanDuration}</td>
                <td>
                  <div className="row">
                    <button type="button" aria-pressed={entry.id === chosen} onClick={() => choose("scan", entry.id)}>
                      Show<span className="unseen"> the scan of {time(entry.scanTimestamp)}</span>
                    </button>
                    <button
                      type="button"
                      aria-pressed={entry.id === other}
                      disabled={entry.id === chosen}
                      onClick={() => choose("against", entry.id === other ? undefined : entry.id)}
                    >
                      Compare<span className="unseen"> with the scan of {time(entry.scanTimestamp)}</span>
                    </button>
                  </div>
                </td>
              </tr>
            ))}
          </WideTable>
          {scans.hasNextPage && (
            <button type="button" disabled={scans.isFetchingNextPage} onClick={() => scans.fetchNextPage()}>
              {scans.isFetchingNextPage ? "Loading…" : "Older scans"}
            </button>
          )}
        </section>
      )}
    </>
  );
}

function Against({ before, after, onClose }: { before: string; after: string; onClose: () => void }) {
  const [old, now] = [useScan(before), useScan(after)];
  const error = old.error ?? now.error;
  if (error) return <Failure error={error} again={() => old.refetch()} />;
  if (!old.data || !now.data) return <Loading what="the other scan" />;
  const found = differences(old.data.report, now.data.report);
  return (
    <section className="card stack" aria-label="Comparison">
      <div className="row">
        <h2 className="grow">Compared with {time(old.data.report.scanTimestamp)}</h2>
        <button type="button" onClick={onClose}>
          Close the comparison
        </button>
      </div>
      {found.length === 0 ? (
        <p>Both scans have the same result.</p>
      ) : (
        <WideTable label="Differences" heads={["Field", "Other scan", "This scan"]}>
          {found.map((one) => (
            <tr key={one.where}>
              <td dir="auto">{one.where}</td>
              <td dir="auto">{one.before ?? <span className="soft">missing</span>}</td>
              <td dir="auto">{one.after ?? <span className="soft">missing</span>}</td>
            </tr>
          ))}
        </WideTable>
      )}
    </section>
  );
}
