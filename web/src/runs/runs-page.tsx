/** All runs: filters, the table, live updates, and what can be done with many of them. */

import { useEffect, useMemo, useRef, useState } from "react";
import { ExportDialog } from "../datasets/export-dialog";
import { FilterBar } from "../filters/filter-bar";
import { isFiltered } from "../filters/run-filter";
import { SavedFiltersMenu } from "../filters/saved-filters-menu";
import { useRunFilter } from "../filters/use-filter";
import { compact } from "../format";
import { CopyButton } from "../parts/copy-button";
import { CreatedKeyNotice, FirstEvent, useCreatedKey } from "../parts/first-event";
import { Page } from "../parts/page";
import type { Column, TableHandle } from "../table/data-table";
import { ColumnChoice } from "./column-choice";
import { KeyHelp } from "./key-help";
import { LiveNotes, LiveSwitch } from "./live-bar";
import { NoMatch } from "./no-match";
import { PickBar } from "./pick-bar";
import { RunTable, shownColumns, useListQuery } from "./run-table";
import styles from "./runs.module.css";
import { NEWEST } from "./sorting";
import { useLiveRuns } from "./use-live-runs";
import { usePicks } from "./use-picks";
import { counted, type Run, runKey, useRunCount, useRuns } from "./use-runs";

/** How often one looks whether the first run has come. */
const FIRST_RUN_MS = 2_000;

export default function RunsPage() {
  const view = useRunFilter();
  const { query, sort } = useListQuery(view);
  const runs = useRuns(query);
  const total = useRunCount(query);
  const table = useRef<TableHandle>(null);
  const isLive = view.params.get("live") === "on";
  const live = useLiveRuns(query, isLive, sort === NEWEST, table);
  const { picks, toggle, clear } = usePicks();

  const created = useCreatedKey();
  const [isExporting, setExporting] = useState(false);
  const isNarrowed = isFiltered(view.filter) || view.range !== undefined;
  const isEmpty = runs.data?.pages[0]?.data.length === 0;
  const isWaiting = isEmpty && !isNarrowed;
  const { refetch } = runs;
  const { refetch: count } = total;
  useEffect(() => {
    if (!isWaiting) return;
    const timer = setInterval(refetch, FIRST_RUN_MS);
    return () => {
      clearInterval(timer);
      // The first run has come: the count is from before.
      count();
    };
  }, [isWaiting, refetch, count]);

  const picked = useMemo(() => new Set(picks.map(runKey)), [picks]);
  const before = useMemo(
    (): Column<Run>[] => [
      {
        id: "pick",
        title: "Pick",
        width: "48px",
        cell: (run) => (
          <input
            type="checkbox"
            aria-label={`Pick ${(run.name || run.run_id).slice(0, 80)} for comparison`}
            checked={picked.has(runKey(run))}
            onChange={() => toggle(run)}
          />
        ),
      },
    ],
    [picked, toggle],
  );

  return (
    <Page
      title="Runs"
      fills
      actions={
        <>
          <span className="soft number" role="status">
            {total.data && counted(total.data, "run")}
            {!total.data && runs.data && `${compact(runs.data.pages[0]?.data.length)}… runs`}
          </span>
          <LiveSwitch live={live} isOn={isLive} onChange={(on) => view.setView({ live: on ? "on" : undefined })} />
          <SavedFiltersMenu view={view} />
          <ColumnChoice shown={shownColumns(view)} onChange={(columns) => view.setView({ columns })} />
          <CopyButton label="Copy link" text={() => window.location.href} />
          <button type="button" disabled={!runs.data || isEmpty} onClick={() => setExporting(true)}>
            Export…
          </button>
          <KeyHelp />
        </>
      }
    >
      <CreatedKeyNotice created={created} />
      {!isWaiting && <FilterBar view={view} fault={runs.error} />}
      <PickBar picks={picks} project={view.filter.project_id} onClear={clear} />
      <div className={styles.list}>
        <LiveNotes live={live} />
        <RunTable
          label="Runs"
          view={view}
          before={before}
          marked={live.marked}
          total={total.data?.isCapped ? undefined : total.data?.count}
          rowKeys={{ x: toggle }}
          handle={table}
          empty={isNarrowed ? <NoMatch view={view} /> : <FirstEvent created={created} />}
        />
      </div>
      {isExporting && (
        <ExportDialog
          path="/api/run/export"
          query={query}
          total={total.data?.isCapped ? undefined : total.data?.count}
          onClose={() => setExporting(false)}
        />
      )}
    </Page>
  );
}
