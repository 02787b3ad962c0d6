/** A table of runs as far as one has scrolled, with notices while they load, fail or are empty. */

import { type ReactNode, type Ref, useCallback, useMemo } from "react";
import { useLocation, useNavigate } from "react-router";
import { ApiFault } from "../api/client";
import type { RunView } from "../filters/use-filter";
import { Failure, Loading } from "../parts/notice";
import { type Column, DataTable, type TableHandle } from "../table/data-table";
import { readColumns } from "./column-names";
import { RUN_COLUMNS, USUAL_COLUMNS } from "./run-columns";
import { runLink } from "./run-link";
import { NEWEST, nextSort } from "./sorting";
import { allRuns, type Run, type RunPath, type RunQuery, runKey, useRuns } from "./use-runs";

const IDS = RUN_COLUMNS.map((column) => column.id);

/** The columns the address names. */
export function shownColumns(view: RunView): string[] {
  return readColumns(view.params.get("columns"), IDS, USUAL_COLUMNS);
}

/** The question for a list: the filter and the sort of the address. */
export function useListQuery(view: RunView): { query: RunQuery; sort: string } {
  const sort = view.params.get("sort") || NEWEST;
  const query = useMemo(() => (sort === NEWEST ? view.query : { ...view.query, sort }), [view.query, sort]);
  return { query, sort };
}

type Props = {
  label: string;
  view: RunView;
  path?: RunPath;
  /** Columns before the others, always there. */
  before?: Column<Run>[];
  /** ... and after them. */
  after?: Column<Run>[];
  marked?: ReadonlySet<string>;
  total?: number | undefined;
  rowKeys?: Record<string, (run: Run) => void>;
  handle?: Ref<TableHandle>;
  /** Stands there when there is no run. */
  empty: ReactNode;
};

const NONE: Column<Run>[] = [];

/** The table. */
export function RunTable({ label, view, path = "/api/run", before = NONE, after = NONE, empty, ...rest }: Props) {
  const { query, sort } = useListQuery(view);
  const runs = useRuns(query, path);
  const rows = useMemo(() => allRuns(runs.data), [runs.data]);
  const navigate = useNavigate();
  const { key: step } = useLocation();

  const named = shownColumns(view).join(",");
  const columns = useMemo(() => {
    const shown = named.split(",");
    return [...before, ...RUN_COLUMNS.filter((column) => shown.includes(column.id)), ...after];
  }, [named, before, after]);

  const { hasNextPage, isFetching, isFetchNextPageError, fetchNextPage } = runs;
  const onEnd = useCallback(() => {
    if (hasNextPage && !isFetching && !isFetchNextPageError) fetchNextPage();
  }, [hasNextPage, isFetching, isFetchNextPageError, fetchNextPage]);
  const onSort = useCallback((column: string) => view.setView({ sort: nextSort(sort, column) }), [view.setView, sort]);
  const onOpen = useCallback((run: Run) => navigate(runLink(run)), [navigate]);

  if (runs.isPending) return <Loading what="runs" />;
  if (runs.isError && !runs.data) {
    // The filter bar says what is wrong with a filter.
    const isFilter = runs.error instanceof ApiFault && runs.error.status === 400;
    if (isFilter) return <p className="soft">Correct the filter to see runs.</p>;
    return <Failure error={runs.error} again={() => runs.refetch()} />;
  }
  if (rows.length === 0) return empty;
  return (
    <>
      {runs.isRefetchError && <Failure error={runs.error} again={() => runs.refetch()} />}
      <DataTable
        {...rest}
        label={label}
        columns={columns}
        rows={rows}
        rowKey={runKey}
        sort={sort}
        onSort={onSort}
        onOpen={onOpen}
        onEnd={onEnd}
        place={{ step, list: JSON.stringify([path, query]) }}
        foot={
          runs.isFetchNextPageError ? (
            <Failure error={runs.error} again={() => fetchNextPage()} />
          ) : (
            runs.isFetchingNextPage && <Loading what="more runs" />
          )
        }
      />
    </>
  );
}
