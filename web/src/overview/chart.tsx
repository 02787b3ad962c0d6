/** A chart over time: it takes the width it is given, follows the theme, and a stretch of it can be chosen by dragging. */

import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import styles from "./chart.module.css";
import { usePalette } from "./palette";
import { bucketText, dataOf, optionsOf, type Plot } from "./plot";
import type { Span } from "./span";
import { Swatch } from "./swatch";

const HEIGHT_PX = 210;
/** Lines of the readout. */
const READ = 9;

type Props = {
  plot: Plot;
  /** Says in words what the picture shows. */
  label: string;
  text: (value: number | null) => string;
  /** A stretch was chosen, in milliseconds. */
  onDraw: (span: Span) => void;
};

type Point = { index: number; isRight: boolean };

/** The picture; what it shows is also there as a table (see `ChartCard`). */
export function Chart({ plot, label, text, onDraw }: Props) {
  const holder = useRef<HTMLDivElement>(null);
  const palette = usePalette();
  const [point, setPoint] = useState<Point>();
  const draw = useRef(onDraw);
  draw.current = onDraw;

  useEffect(() => {
    const element = holder.current;
    if (!element) return;
    const width = () => Math.max(160, element.clientWidth);
    const chart = new uPlot(
      optionsOf(
        plot,
        palette,
        { width: width(), height: HEIGHT_PX },
        {
          onPoint: (index, isRight) =>
            setPoint((now) => {
              if (index === null) return undefined;
              return now?.index === index && now.isRight === isRight ? now : { index, isRight };
            }),
          onDraw: (span) => draw.current(span),
        },
      ),
      dataOf(plot),
      element,
    );
    const observer = new ResizeObserver(() => {
      if (width() !== chart.width) chart.setSize({ width: width(), height: HEIGHT_PX });
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
      chart.destroy();
      setPoint(undefined);
    };
  }, [plot, palette]);

  return (
    <div className={styles.holder} onPointerLeave={() => setPoint(undefined)}>
      <div ref={holder} role="img" aria-label={label} />
      {isEmpty(plot) && <p className={`soft small ${styles.nothing}`}>No data in this time range</p>}
      {point && <Readout plot={plot} point={point} text={text} />}
    </div>
  );
}

function isEmpty({ series, isSum }: Plot): boolean {
  return series.every((one) => one.values.every((value) => value === null || (isSum && value === 0)));
}

/** The figures below the pointer, largest first where they add up. */
function Readout({ plot, point, text }: { plot: Plot; point: Point; text: Props["text"] }) {
  const start = plot.starts[point.index];
  if (start === undefined) return null;
  const lines = plot.series
    .map((one) => ({ ...one, value: one.values[point.index] ?? null }))
    .filter((one) => one.value !== null && (one.value !== 0 || !plot.isSum))
    .sort((a, b) => (b.value ?? 0) - (a.value ?? 0));
  const total = lines.reduce((all, one) => all + (one.value ?? 0), 0);
  return (
    <div className={`${styles.readout} ${point.isRight ? styles.left : styles.right}`} aria-hidden="true">
      <strong>{bucketText(start, plot.interval)}</strong>
      {lines.length === 0 && <span className="soft">No data</span>}
      {lines.slice(0, READ).map((one) => (
        <span key={one.id} className={styles.line}>
          <Swatch colour={one.colour} />
          <bdi className="clip">{one.label}</bdi>
          <span className="number">{text(one.value)}</span>
        </span>
      ))}
      {plot.isSum && lines.length > 1 && (
        <span className={styles.line}>
          <span />
          <strong>Together</strong>
          <strong className="number">{text(total)}</strong>
        </span>
      )}
    </div>
  );
}
