/** A table that is scrolled sideways where the page is narrower than it is. */

import type { ReactNode } from "react";
import { Wide } from "../parts/wide";
import styles from "./operations.module.css";

type Props = {
  /** What it is of, for those who do not see it. */
  label: string;
  /** Names of its columns; an empty one is for buttons. */
  heads: string[];
  /** Which of them are figures, which stand at the right. */
  figures?: string[];
  /** The rows. */
  children: ReactNode;
};

/** The table with its heads. */
export function WideTable({ label, heads, figures = [], children }: Props) {
  return (
    <Wide className={styles.wide} label={`Table: ${label}`}>
      <table className="plain">
        <thead>
          <tr>
            {heads.map((head) => (
              <th key={head} scope="col" className={figures.includes(head) ? "number" : ""}>
                {head || <span className="unseen">Actions</span>}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </Wide>
  );
}
