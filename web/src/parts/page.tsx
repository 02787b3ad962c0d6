/** The head of a page: its title, which is the document's too, and what can be done. */

import { type ReactNode, useEffect } from "react";
import styles from "./page.module.css";

type Props = {
  /** What the page is called. */
  title: string;
  /** Buttons and controls beside the title. */
  actions?: ReactNode;
  /** Whether the content takes exactly the height there is and scrolls inside, as long tables do. */
  fills?: boolean;
  children: ReactNode;
};

/** A page. */
export function Page({ title, actions, fills = false, children }: Props) {
  useEffect(() => {
    document.title = `${title} · Spindle`;
  }, [title]);
  return (
    <div className={fills ? styles.fills : styles.page}>
      <div className={`row ${styles.head}`}>
        <h1 className="grow">
          <bdi>{title}</bdi>
        </h1>
        {actions}
      </div>
      {children}
    </div>
  );
}
