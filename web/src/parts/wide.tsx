/** What is wider than a narrow page, such as a table: it is scrolled sideways, with the keyboard too. */

import type { ReactNode } from "react";

type Props = {
  /** What it is, for those who do not see it. */
  label: string;
  className?: string | undefined;
  children: ReactNode;
};

/** The stretch that scrolls. */
export function Wide({ label, className = "", children }: Props) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached with the keyboard
    <section className={`scroll-x ${className}`} tabIndex={0} aria-label={label}>
      {children}
    </section>
  );
}
