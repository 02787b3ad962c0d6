/** A small line over the last minutes. What it says is said in words beside it. */

import styles from "./operations.module.css";
import { KEPT_MS, linePoints } from "./pipeline-rates";

const [WIDTH, HEIGHT] = [600, 60];

type Line = { name: string; values: { atMs: number; value: number | null }[] };
type Props = {
  label: string;
  unit: (value: number | null) => string;
  lines: Line[];
};

/** The lines, with their highest and their last values as text. */
export function Spark({ label, unit, lines }: Props) {
  const values = lines.flatMap((line) => line.values);
  const toMs = Math.max(...values.map((one) => one.atMs), 0);
  const top = Math.max(...values.map((one) => one.value ?? 0), 0);
  // A minute at least: with a few values the line would jump about.
  const firstMs = Math.min(...values.map((one) => one.atMs), toMs - 60_000);
  const box = { width: WIDTH, height: HEIGHT - 4, fromMs: Math.max(firstMs, toMs - KEPT_MS), toMs, top };
  const said = lines.map((line) => `${line.name} ${unit(line.values.at(-1)?.value ?? null)}`).join(", ");
  return (
    <figure className={styles.figureSpark}>
      <svg
        className={styles.spark}
        viewBox={`0 -2 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${label}: ${said}; at most ${unit(top)}`}
      >
        {lines.map((line, at) =>
          linePoints(line.values, box).map((points) => (
            <polyline key={points} className={at === 0 ? styles.first : styles.second} points={points} />
          )),
        )}
      </svg>
      <figcaption className="soft small">
        {label}, at most {unit(top)}
      </figcaption>
    </figure>
  );
}
