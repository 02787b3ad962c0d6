/** Model calls: a list to walk through, and the prompt and answer of the one that is chosen. */

import { useCallback, useEffect, useMemo, useRef } from "react";
import { useLocation } from "react-router";
import { ApiFault } from "../api/client";
import { Pick } from "../filters/fields";
import { FilterBar } from "../filters/filter-bar";
import { isFiltered } from "../filters/run-filter";
import { useRunFilter } from "../filters/use-filter";
import { CopyButton } from "../parts/copy-button";
import { Empty, Failure, Loading } from "../parts/notice";
import { Page } from "../parts/page";
import { NoMatch } from "../runs/no-match";
import { useListQuery } from "../runs/run-table";
import { NEWEST } from "../runs/sorting";
import { allRuns, counted, type Run, runKey, useRunCount, useRuns } from "../runs/use-runs";
import { DataTable } from "../table/data-table";
import { CALL_COLUMNS, CALL_PX } from "./call-columns";
import { CallPane } from "./call-pane";
import styles from "./calls.module.css";

const FIXED = { type: "llm" } as const;
const SORTS = [
  ["", "Newest first"],
  ["started_at", "Oldest first"],
  ["-latency_s", "Slowest first"],
  ["-total_cost", "Most expensive first"],
  ["-total_tokens", "Most tokens first"],
  ["-ttft_ms", "Slowest first token first"],
] as const;
/** Milliseconds that a call is selected before it is loaded: fast navigation loads nothing. */
const STAY_MS = 150;

export default function CallsPage() {
  const view = useRunFilter();
  const { query: listed, sort } = useListQuery(view);
  const query = useMemo(() => ({ ...listed, ...FIXED }), [listed]);
  const calls = useRuns(query);
  const total = useRunCount(query);
  const rows = useMemo(() => allRuns(calls.data), [calls.data]);
  const { key: step } = useLocation();

  const { params, setView } = view;
  const chosen = params.get("call");
  const name = useMemo(
    () =>
      chosen === null
        ? undefined
        : { run_id: chosen, app_id: params.get("call_app"), project_id: params.get("call_project") ?? undefined },
    [chosen, params],
  );
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const choose = useCallback(
    (run: Run | undefined) => {
      clearTimeout(timer.current);
      const now = { call: run?.run_id, call_app: run?.app_id, call_project: run?.project_id };
      timer.current = setTimeout(() => setView(now, { replace: true }), run ? STAY_MS : 0);
    },
    [setView],
  );
  const { hasNextPage, isFetching, isFetchNextPageError, fetchNextPage } = calls;
  const onEnd = useCallback(() => {
    if (hasNextPage && !isFetching && !isFetchNextPageError) fetchNextPage();
  }, [hasNextPage, isFetching, isFetchNextPageError, fetchNextPage]);

  const isNarrowed = isFiltered(view.filter) || view.range !== undefined;
  // The filter bar says what is wrong with a filter.
  const isBadFilter = calls.error instanceof ApiFault && calls.error.status === 400;
  const key = name && runKey(name);
  const inList = rows.find((run) => runKey(run) === key);
  return (
    <Page
      title="Model calls"
      fills
      actions={
        <>
          <span className="soft number" role="status">
            {total.data && counted(total.data, "call")}
          </span>
          <Pick
            label="Order"
            value={sort === NEWEST ? "" : sort}
            choices={SORTS}
            onChange={(chosenSort) => setView({ sort: chosenSort || undefined })}
          />
          <CopyButton label="Copy link" text={() => window.location.href} />
        </>
      }
    >
      <FilterBar view={view} fixed={FIXED} fault={calls.error} />
      {calls.isPending && <Loading what="model calls" />}
      {calls.isError && !calls.data && !isBadFilter && <Failure error={calls.error} again={() => calls.refetch()} />}
      {calls.data && rows.length === 0 && (isNarrowed ? <NoMatch view={view} what="model calls" /> : <NoCalls />)}
      {rows.length > 0 && (
        <div className={styles.panes} data-chosen={name !== undefined || undefined}>
          <DataTable
            label="Model calls"
            columns={CALL_COLUMNS}
            rows={rows}
            rowKey={runKey}
            rowHeight={CALL_PX}
            onCursor={choose}
            onEnd={onEnd}
            total={total.data?.isCapped ? undefined : total.data?.count}
            place={{ step, list: JSON.stringify(query) }}
            foot={
              calls.isFetchNextPageError ? (
                <Failure error={calls.error} again={() => fetchNextPage()} />
              ) : (
                calls.isFetchingNextPage && <Loading what="more calls" />
              )
            }
          />
          {name ? (
            <CallPane key={key} name={name} listed={inList} onClose={() => choose(undefined)} />
          ) : (
            <div className={styles.none}>
              <p className="soft">
                Select a call to read its prompt and its answer; press j and k to move between calls.
              </p>
            </div>
          )}
        </div>
      )}
    </Page>
  );
}

function NoCalls() {
  return (
    <Empty title="No model calls yet">
      <p className="soft">
        Runs of type <code>llm</code> appear here. The page “Runs” shows how to report the first one.
      </p>
    </Empty>
  );
}
