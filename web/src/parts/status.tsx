/** The status of a run, in a word and a colour. */

const KINDS = { success: "good", error: "bad", started: "info" } as const;

/** A chip. */
export function Status({ status, stale = false }: { status: string; stale?: boolean }) {
  const kind = stale ? "warn" : (KINDS[status as keyof typeof KINDS] ?? "");
  return <span className={`chip ${kind}`}>{stale ? "stale" : status}</span>;
}
