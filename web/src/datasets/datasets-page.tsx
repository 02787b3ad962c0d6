/** The dataset: saved runs, and files made of them. */

import { useMemo, useState } from "react";
import { FilterBar } from "../filters/filter-bar";
import { isFiltered } from "../filters/run-filter";
import { useRunFilter } from "../filters/use-filter";
import { CopyButton } from "../parts/copy-button";
import { Empty, Failure } from "../parts/notice";
import { Page } from "../parts/page";
import { ColumnChoice } from "../runs/column-choice";
import { NoMatch } from "../runs/no-match";
import { RunTable, shownColumns, useListQuery } from "../runs/run-table";
import { markOf, useMark } from "../runs/use-marks";
import { counted, type Run, useRunCount, useRuns } from "../runs/use-runs";
import type { Column } from "../table/data-table";
import styles from "./datasets.module.css";
import { ExportDialog } from "./export-dialog";

const FIXED = { saved: "true" } as const;

export default function DatasetsPage() {
  const view = useRunFilter();
  const { query } = useListQuery(view);
  const runs = useRuns(query, "/api/dataset");
  const total = useRunCount(query, "/api/dataset");
  const mark = useMark();
  const [isExporting, setExporting] = useState(false);

  const { mutate } = mark;
  const before = useMemo(
    (): Column<Run>[] => [
      {
        id: "unsave",
        title: "Keep",
        width: "106px",
        cell: (run) => (
          <button
            type="button"
            className={styles.inRow}
            onClick={() => mutate(markOf(run, { kind: run.saved ? "unsave" : "save" }))}
          >
            {run.saved ? "Unsave" : "Save again"}
            <span className="unseen"> {(run.name || run.run_id).slice(0, 80)}</span>
          </button>
        ),
      },
    ],
    [mutate],
  );
  const isNarrowed = isFiltered(view.filter) || view.range !== undefined;
  return (
    <Page
      title="Datasets"
      fills
      actions={
        <>
          <span className="soft number" role="status">
            {total.data && counted(total.data, "saved run")}
          </span>
          <ColumnChoice shown={shownColumns(view)} onChange={(columns) => view.setView({ columns })} />
          <CopyButton label="Copy link" text={() => window.location.href} />
          <button
            type="button"
            className="primary"
            disabled={!runs.data?.pages[0]?.data.length}
            onClick={() => setExporting(true)}
          >
            Export…
          </button>
        </>
      }
    >
      <FilterBar view={view} fixed={FIXED} fault={runs.error} />
      {mark.isError && <Failure error={mark.error} again={() => mark.variables && mark.mutate(mark.variables)} />}
      <RunTable
        label="Saved runs"
        view={view}
        path="/api/dataset"
        before={before}
        total={total.data?.isCapped ? undefined : total.data?.count}
        empty={
          isNarrowed ? (
            <NoMatch view={view} what="saved runs" />
          ) : (
            <Empty title="No saved runs">
              <p className="soft">
                Save a run on its page: retention then keeps it, and it becomes part of the dataset that you export
                here.
              </p>
            </Empty>
          )
        }
      />
      {isExporting && (
        <ExportDialog
          path="/api/dataset/export"
          query={query}
          total={total.data?.isCapped ? undefined : total.data?.count}
          onClose={() => setExporting(false)}
        />
      )}
    </Page>
  );
}
