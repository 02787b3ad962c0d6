/** Cost, volume, latency and errors over time, by model, agent, user or app, and the runs behind them. */

import { useEffect, useMemo, useState } from "react";
import { FilterBar } from "../filters/filter-bar";
import { apiQuery, type RunFilter, writeFilter } from "../filters/run-filter";
import { useRunFilter } from "../filters/use-filter";
import { CreatedKeyNotice, useCreatedKey } from "../parts/first-event";
import { Failure, Loading } from "../parts/notice";
import { Page } from "../parts/page";
import { AppClient } from "./app-client";
import { ChartCard, ChartPlaceholder } from "./chart-card";
import { ErrorReasons } from "./error-reasons";
import { GroupTable } from "./group-table";
import { Legend } from "./legend";
import { MEASURES } from "./measures";
import { NoFigures } from "./no-figures";
import styles from "./overview.module.css";
import { DEFAULT_RANGE, OverviewControls, readBy } from "./overview-controls";
import { type By, prepare } from "./series";
import { before, intervalFor, type Span, snapped, spanOf } from "./span";
import { SpanRuns } from "./span-runs";
import { Tiles } from "./tiles";
import { AGAIN_MS, useUsage } from "./use-usage";

/** The filter that means a group. */
const FIELD = { model: "model", agent: "agent", user: "user_email", app: "app_id" } as const satisfies Record<
  By,
  keyof RunFilter
>;

const iso = (ms: number) => new Date(ms).toISOString();

/** The page. */
export default function OverviewPage() {
  const view = useRunFilter();
  const { params, filter, range: named, setFilter, setRange, setView } = view;
  const hasTimes = Boolean(filter.from || filter.to);
  const range = hasTimes ? undefined : (named ?? DEFAULT_RANGE);
  const by = readBy(params);
  const now = useNow(!filter.to);
  const query = useMemo(() => apiQuery(filter, range, now), [filter, range, now]);
  const span = useMemo(() => spanOf(query, now), [query, now]);
  const interval = intervalFor(span, params.get("interval"));

  // Without an interval the server gives no series: the figures are still right.
  const usage = useUsage(by, query, interval);
  // The report by model knows model calls only; the tiles are of all runs.
  const all = useUsage("agent", query, undefined, by === "model");
  const earlier = before(span);
  const past = useUsage("agent", { ...query, from: iso(earlier.from), to: iso(earlier.to) });
  const totals = by === "model" ? all.data?.totals : usage.data?.totals;

  const created = useCreatedKey();
  const hasFailed = by === "model" ? all.isError : usage.isError;

  const isEmpty = totals?.runs === 0;
  const charted = MEASURES.filter((measure) => by !== "model" || measure.id !== "runs");
  const prepared = useMemo(
    () => (usage.data?.interval ? prepare(usage.data, by, usage.data.interval, span) : undefined),
    [usage.data, by, span],
  );
  const [off, setOff] = useState<ReadonlySet<string>>(new Set());
  const toggle = (id: string) =>
    setOff((before) => {
      const next = new Set(before);
      if (!next.delete(id)) next.add(id);
      return next;
    });

  const setTimes = (from: string | undefined, to: string | undefined) =>
    setFilter(({ from: _from, to: _to, ...rest }) => ({ ...rest, ...(from && { from }), ...(to && { to }) }));
  const draw = (drawn: Span) => {
    if (!interval) return;
    const { from, to } = snapped(drawn, interval, span);
    setTimes(iso(from), iso(to));
  };
  const address = new URLSearchParams(writeFilter(filter));
  if (range) address.set("range", range);

  return (
    <Page
      title="Overview"
      actions={
        <span className="soft small" aria-live="polite">
          {usage.isFetching ? "Reading…" : ""}
        </span>
      }
    >
      <OverviewControls
        by={by}
        range={range}
        span={span}
        choice={JSON.stringify([range, filter.from, filter.to])}
        interval={interval}
        onBy={(chosen) => setView({ by: chosen })}
        onRange={(chosen) => setRange(chosen)}
        onInterval={(chosen) => setView({ interval: chosen })}
        onTimes={setTimes}
        onReset={() => setTimes(undefined, undefined)}
      />
      <CreatedKeyNotice created={created} />
      <FilterBar view={{ ...view, query, range: undefined }} hasTime={false} fault={usage.error} />
      {(totals || !hasFailed) && (
        <Tiles now={totals} earlier={past.isPlaceholderData ? undefined : past.data?.totals} before={earlier} />
      )}
      {filter.app_id && <AppClient query={query} />}
      {usage.isPending && (
        <div className={styles.above}>
          <Loading what="figures" />
        </div>
      )}
      {usage.isPending && interval && (
        <div className={styles.charts} aria-hidden="true">
          {charted.map((measure) => (
            <ChartPlaceholder key={measure.id} measure={measure} />
          ))}
        </div>
      )}
      {usage.isError && <Failure error={usage.error} again={() => usage.refetch()} />}
      {all.isError && <Failure error={all.error} again={() => all.refetch()} />}
      {!interval && (
        <p className="notice">The time range is too long for charts: choose a range of less than 1,000 days.</p>
      )}
      {isEmpty && <NoFigures view={view} created={created} />}
      {!isEmpty && prepared && usage.data && (
        <>
          <div className={`stack ${styles.above}`}>
            <Legend groups={prepared.groups} off={off} onToggle={toggle} />
            <p className="soft small" style={{ margin: 0 }}>
              {by === "model" && "Charts by model cover model calls only. "}
              Drag over a chart to select a time range{prepared.interval === "day" ? "; days are UTC days" : ""}. The
              first and the last bar can cover only part of their {prepared.interval}.
            </p>
          </div>
          <div className={styles.charts} aria-busy={usage.isPlaceholderData}>
            {charted.map((measure) => (
              <ChartCard key={measure.id} measure={measure} prepared={prepared} off={off} onDraw={draw} />
            ))}
          </div>
        </>
      )}
      <div className={styles.tables} hidden={isEmpty}>
        {usage.data && (
          <GroupTable
            report={usage.data}
            by={by}
            groups={prepared?.groups ?? []}
            sort={params.get("groups")}
            onSort={(sort) => setView({ groups: sort })}
            onChoose={(key) => setFilter((before) => ({ ...before, [FIELD[by]]: key }))}
          />
        )}
        <ErrorReasons query={query} />
      </div>
      {!isEmpty && <SpanRuns query={query} to={`/runs?${address}`} total={totals?.runs} />}
    </Page>
  );
}

/** The time now, which goes on each minute while the page is seen and its span ends now. */
function useNow(moves: boolean): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (!moves) return;
    setNow(Date.now());
    const timer = setInterval(() => {
      if (document.visibilityState === "visible") setNow(Date.now());
    }, AGAIN_MS);
    return () => clearInterval(timer);
  }, [moves]);
  return now;
}
