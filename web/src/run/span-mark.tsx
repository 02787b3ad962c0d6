/** The status of a span in a small place: a sign, a colour, and the word for those who see neither. */

import type { Span } from "./span-tree";
import styles from "./trace.module.css";

/** What to call the status. */
export function statusOf(span: Pick<Span, "status" | "stale">): string {
  return span.stale ? "stale" : span.status;
}

const SIGNS: Record<string, string> = { success: "✓", error: "✕", started: "◌", stale: "!" };

/** The sign. */
export function StatusMark({ span }: { span: Pick<Span, "status" | "stale"> }) {
  const status = statusOf(span);
  return (
    <span className={styles.mark} data-status={status} title={status}>
      <span aria-hidden="true">{SIGNS[status] ?? "?"}</span>
      <span className="unseen">{status}</span>
    </span>
  );
}
