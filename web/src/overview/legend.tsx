/** Which series is which, for all charts of the page; each can be switched off. */

import styles from "./chart.module.css";
import { ALL } from "./chart-card";
import type { Series } from "./series";
import { Swatch } from "./swatch";

type Props = { groups: Series[]; off: ReadonlySet<string>; onToggle: (id: string) => void };

/** The legend. */
export function Legend({ groups, off, onToggle }: Props) {
  const all = { id: ALL, label: "All (lines)", colour: 0 };
  return (
    <ul className={styles.legend} aria-label="Series of the charts">
      {[...groups, all].map((one) => (
        <li key={one.id}>
          <button type="button" aria-pressed={!off.has(one.id)} title={one.label} onClick={() => onToggle(one.id)}>
            <Swatch colour={one.colour} />
            <bdi className="clip">{one.label}</bdi>
          </button>
        </li>
      ))}
    </ul>
  );
}
