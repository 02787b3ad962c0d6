/** Why runs failed, with an example of each reason. */

import { Link } from "react-router";
import { count, percent, time } from "../format";
import { Failure, Loading } from "../parts/notice";
import { Wide } from "../parts/wide";
import { runLink } from "../runs/run-link";
import styles from "./overview.module.css";
import { type Query, useErrors } from "./use-usage";

/** Rows at most. */
const MOST = 20;

/** The table. */
export function ErrorReasons({ query }: { query: Query }) {
  const errors = useErrors(query);
  const report = errors.data;
  const all = report?.totals.count ?? 0;
  return (
    <section className="card stack" aria-label="Errors by reason" aria-busy={errors.isPlaceholderData}>
      <h2>
        Errors by reason <span className="soft small">{report ? count(all) : ""}</span>
      </h2>
      {errors.isPending && <Loading what="errors" />}
      {errors.isError && <Failure error={errors.error} again={() => errors.refetch()} />}
      {report && report.groups.length === 0 && <p className="soft">No run failed in this time range.</p>}
      {report && report.groups.length > 0 && (
        <Wide className={styles.groups} label="Table of errors">
          <table className="plain">
            <thead>
              <tr>
                <th scope="col">Reason</th>
                <th scope="col" className="number">
                  Runs
                </th>
                <th scope="col" className="number">
                  Share
                </th>
                <th scope="col">Last seen</th>
                <th scope="col">Example</th>
              </tr>
            </thead>
            <tbody>
              {report.groups.slice(0, MOST).map((group) => (
                <tr key={group.key ?? ""}>
                  <th scope="row">
                    <span className={styles.reason} title={(group.key ?? "").slice(0, 500)}>
                      <bdi>{group.key?.slice(0, 200) || "(no reason given)"}</bdi>
                    </span>
                  </th>
                  <td className="number">{count(group.count)}</td>
                  <td className="number">{percent(all > 0 ? group.count / all : null)}</td>
                  <td className={styles.when}>{time(group.last_seen)}</td>
                  <td>
                    {group.example && (
                      <Link className={styles.example} to={runLink(group.example)}>
                        <bdi>{group.example.run_id}</bdi>
                      </Link>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Wide>
      )}
      {report && (report.groups.length > MOST || report.other) && (
        <p className="soft small">
          The {Math.min(MOST, report.groups.length)} most frequent reasons; others account for{" "}
          {count(all - report.groups.slice(0, MOST).reduce((sum, group) => sum + group.count, 0))} runs.
        </p>
      )}
    </section>
  );
}
