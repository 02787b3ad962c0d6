/** The groups with their figures; a click on one shows only its runs. */

import { useState } from "react";
import { count, dollars, duration, percent } from "../format";
import { Wide } from "../parts/wide";
import { nextSort, ordered, readSort, type SortColumn } from "./group-order";
import styles from "./overview.module.css";
import { type By, groupLabel, type Prepared, type Report } from "./series";
import { Swatch } from "./swatch";

const HEADS: { id: SortColumn; title: string; full?: string }[] = [
  { id: "runs", title: "Runs" },
  { id: "calls", title: "Calls", full: "Model calls" },
  { id: "cost", title: "Own cost", full: "Of the runs themselves, without their children" },
  { id: "tokens", title: "Own tokens", full: "Of the runs themselves, without their children" },
  { id: "p50", title: "p50", full: "Median latency" },
  { id: "p95", title: "p95", full: "Latency, 95th percentile" },
  { id: "errors", title: "Errors" },
  { id: "error_rate", title: "Error rate" },
  { id: "ttft", title: "First token", full: "Median time to the first token of model calls" },
  { id: "speed", title: "Tokens/s", full: "Completion tokens a second of model calls" },
];
/** Rows shown at first. */
const FIRST = 20;

type Props = {
  report: Report;
  by: By;
  groups: Prepared["groups"];
  sort: string | null;
  onSort: (sort: string) => void;
  onChoose: (key: string) => void;
};

/** The table. */
export function GroupTable({ report, by, groups, sort, onSort, onChoose }: Props) {
  const [most, setMost] = useState(FIRST);
  const colours = new Map(groups.map((group) => [group.id, group.colour]));
  const rows = ordered(report.groups, sort);
  const order = readSort(sort);
  const head = (id: SortColumn, title: string, full?: string) => (
    <th
      key={id}
      scope="col"
      className={id === "key" ? "" : "number"}
      aria-sort={order.column === id ? (order.isDown ? "descending" : "ascending") : undefined}
      title={full}
    >
      <button type="button" className={styles.sort} onClick={() => onSort(nextSort(sort, id))}>
        {title}
        <span aria-hidden="true">{order.column === id ? (order.isDown ? "▼" : "▲") : "↕"}</span>
      </button>
    </th>
  );
  return (
    <section className="card stack" aria-label={`Figures by ${by}`}>
      <h2>By {by}</h2>
      <Wide className={styles.groups} label={`Table by ${by}`}>
        <table className="plain">
          <thead>
            <tr>
              {head(
                "key",
                by.replace(/^./, (letter) => letter.toUpperCase()),
              )}
              {HEADS.map(({ id, title, full }) => head(id, title, full))}
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, most).map((group) => {
              const key = group.key ?? null;
              const colour = colours.get(key === null ? "none" : `key ${key}`);
              return (
                <tr key={key === null ? "none" : `key ${key}`}>
                  <th scope="row">
                    <span className={styles.key}>
                      {colour ? <Swatch colour={colour} /> : <span className={styles.gap} />}
                      {key === null ? (
                        <span className="soft">{groupLabel(null, by)}</span>
                      ) : (
                        <button type="button" title={`Only ${groupLabel(key, by)}`} onClick={() => onChoose(key)}>
                          <bdi className="clip">{groupLabel(key, by)}</bdi>
                        </button>
                      )}
                    </span>
                  </th>
                  <Figures of={group} />
                </tr>
              );
            })}
            {report.other && (
              <tr>
                <th scope="row">
                  <span className={styles.key}>
                    <span className={styles.gap} />
                    <span className="soft">All others</span>
                  </span>
                </th>
                <Figures of={report.other} />
              </tr>
            )}
          </tbody>
          <tfoot>
            <tr>
              <th scope="row">
                <span className={styles.key}>
                  <span className={styles.gap} />
                  All
                </span>
              </th>
              <Figures of={report.totals} />
            </tr>
          </tfoot>
        </table>
      </Wide>
      {rows.length > most && (
        <div>
          <button type="button" onClick={() => setMost(most + 200)}>
            Show more ({count(rows.length - most)})
          </button>
        </div>
      )}
    </section>
  );
}

function Figures({ of: group }: { of: Report["totals"] }) {
  return (
    <>
      <td className="number">{count(group.runs)}</td>
      <td className="number">{count(group.calls)}</td>
      <td className="number">{dollars(group.cost)}</td>
      <td className="number">{count(group.total_tokens)}</td>
      <td className="number">{duration(group.latency_p50_s)}</td>
      <td className="number">{duration(group.latency_p95_s)}</td>
      <td className="number">{count(group.errors)}</td>
      <td className="number">{group.runs > 0 ? percent(group.error_rate) : "–"}</td>
      <td className="number">{group.ttft_p50_ms == null ? "–" : duration(group.ttft_p50_ms / 1000)}</td>
      <td className="number">{count(group.tokens_per_second == null ? null : Math.round(group.tokens_per_second))}</td>
    </>
  );
}
