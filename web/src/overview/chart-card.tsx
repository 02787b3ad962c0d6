/** A chart with its title and unit; the same figures as a table, for those who cannot see it or want them exactly. */

import { useId, useMemo, useState } from "react";
import { Chart } from "./chart";
import styles from "./chart.module.css";
import type { Measure } from "./measures";
import { bucketText, type Plot } from "./plot";
import type { Prepared } from "./series";
import type { Span } from "./span";

type Props = {
  measure: Measure;
  prepared: Prepared;
  /** Ids of series that are switched off in the legend. */
  off: ReadonlySet<string>;
  onDraw: (span: Span) => void;
};

/** The id of the line of all runs together. */
export const ALL = "all";

/** The card. */
export function ChartCard({ measure, prepared, off, onDraw }: Props) {
  const [isTable, setIsTable] = useState(false);
  const id = useId();
  const plot = useMemo((): Plot => {
    const groups = prepared.groups
      .map(({ id, label, colour, figures }) => ({ id, label, colour, values: figures.map(measure.value) }))
      // Percentiles of several groups together are not known: there is no line for the rest.
      .filter((one) => !off.has(one.id) && (measure.isSum || one.values.some((value) => value !== null)));
    const all = { id: ALL, label: "All", colour: 0, values: prepared.all.map(measure.value) };
    return {
      interval: prepared.interval,
      starts: prepared.starts,
      isSum: measure.isSum,
      short: measure.short,
      steps: measure.steps,
      // What stands for everything is drawn last, above the groups.
      series: measure.isSum || off.has(ALL) ? groups : [...groups, all],
    };
  }, [prepared, measure, off]);
  return (
    <section className={`card ${styles.card}`} aria-labelledby={id}>
      <div className="row">
        <h2 id={id} className="grow">
          {measure.title}{" "}
          <span className="soft small">
            {measure.unit} by {prepared.interval}
          </span>
        </h2>
        <button
          type="button"
          className="quiet small"
          aria-pressed={isTable}
          aria-label={`${measure.title} as a table`}
          onClick={() => setIsTable(!isTable)}
        >
          Table
        </button>
      </div>
      {isTable ? (
        <FigureTable plot={plot} measure={measure} />
      ) : (
        <Chart plot={plot} label={summary(plot, measure)} text={measure.text} onDraw={onDraw} />
      )}
    </section>
  );
}

/** Takes the place of a chart until its figures are known, so that nothing moves when they come. */
export function ChartPlaceholder({ measure }: { measure: Measure }) {
  return (
    <div className={`card ${styles.card} ${styles.placeholder}`}>
      <h2>{measure.title}</h2>
    </div>
  );
}

/** What the picture shows in a sentence. */
function summary(plot: Plot, measure: Measure): string {
  const [first, last] = [plot.starts[0], plot.starts.at(-1)];
  if (first === undefined || last === undefined) return `${measure.title}: no data`;
  const parts = plot.series.map((one) => {
    const known = one.values.filter((value) => value !== null);
    if (known.length === 0) return `${one.label}: no data`;
    if (measure.isSum) return `${one.label}: ${measure.text(known.reduce((all, value) => all + value, 0))}`;
    return `${one.label}: ${measure.text(Math.min(...known))} to ${measure.text(Math.max(...known))}`;
  });
  const when = `${bucketText(first, plot.interval)} to ${bucketText(last, plot.interval)}`;
  return `${measure.title} by ${plot.interval}, ${when}. ${parts.join("; ")}. The button Table shows all figures.`;
}

function FigureTable({ plot, measure }: { plot: Plot; measure: Measure }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached with the keyboard
    <section className={styles.table} tabIndex={0} aria-label={`Figures of ${measure.title}`}>
      <table className="plain small">
        <thead>
          <tr>
            <th scope="col">{plot.interval === "day" ? "Day" : "Hour"}</th>
            {plot.series.map((one) => (
              <th key={one.id} scope="col" className="number" title={one.label}>
                <bdi>{one.label}</bdi>
              </th>
            ))}
            {measure.isSum && (
              <th scope="col" className="number">
                Together
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {plot.starts.map((start, index) => (
            <tr key={start}>
              <th scope="row">{bucketText(start, plot.interval)}</th>
              {plot.series.map((one) => (
                <td key={one.id} className="number">
                  {measure.text(one.values[index] ?? null)}
                </td>
              ))}
              {measure.isSum && (
                <td className="number">
                  {measure.text(plot.series.reduce((all, one) => all + (one.values[index] ?? 0), 0))}
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
