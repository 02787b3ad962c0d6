/** Spans of a client's own functions (type `internal`), of which a turn of Codex has hundreds. Pure. */

import type { Span } from "./span-tree";

const INTERNAL = "internal";

/** The spans that are shown, and how many are left out. */
export type Folded = { spans: Span[]; left: number };

/**
 * The spans without internal ones; what is below one of them moves up to the nearest span above that is shown. The first
 * span of a trace stays, whatever its type, and so does the span `kept`.
 */
export function withoutInternal(spans: readonly Span[], kept: string): Folded {
  const byId = new Map(spans.map((span) => [span.run_id, span]));
  const parentOf = (span: Span) => byId.get(span.parent_run_id ?? "");
  const isShown = (span: Span) => span.type !== INTERNAL || span.run_id === kept || !parentOf(span);
  /** The nearest shown span above an internal one, for each that was asked for: chains may be long. */
  const known = new Map<string, string | null>();
  const shownAbove = (span: Span): string | null => {
    const passed: string[] = [];
    const seen = new Set<string>([span.run_id]);
    let above = parentOf(span);
    let found: string | null = span.parent_run_id ?? null;
    while (above && !isShown(above)) {
      const before = known.get(above.run_id);
      if (before !== undefined || seen.has(above.run_id)) {
        // In a circle of internal spans there is none.
        return settle(passed, before ?? null);
      }
      passed.push(above.run_id);
      seen.add(above.run_id);
      found = above.parent_run_id ?? null;
      above = parentOf(above);
    }
    return settle(passed, found);
  };
  const settle = (passed: string[], found: string | null) => {
    for (const id of passed) known.set(id, found);
    return found;
  };
  const shown = spans.filter(isShown);
  if (shown.length === spans.length) return { spans: shown, left: 0 };
  return {
    spans: shown.map((span) => {
      const above = shownAbove(span);
      return above === (span.parent_run_id ?? null) ? span : { ...span, parent_run_id: above };
    }),
    left: spans.length - shown.length,
  };
}
