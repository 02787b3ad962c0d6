/**
 * The tree of a trace and the lines of it that are shown. Pure. Whatever is reported can be shown: spans whose parent is
 * not here become roots, and a circle of parents is cut open, so that each span stands in the tree exactly once.
 */

import type { Shapes } from "../api/client";

/** A run of a trace. */
export type Span = Shapes["Run"];

/** A span in its place. */
export type Place = {
  span: Span;
  depth: number;
  /** Position of its parent in the tree, -1 for a root. */
  parent: number;
  /** Position after its last descendant. */
  end: number;
  /** Whether it names a parent that is not here, or that is below itself. */
  isAdrift: boolean;
  /** By how much it begins before its parent, in milliseconds; 0 where it does not. */
  earlyMs: number;
};
/** Spans from the top down, parents before children, siblings by their start. */
export type Tree = { places: Place[]; byId: ReadonlyMap<string, number>; types: string[]; depth: number };

/** When a span began, in milliseconds since 1970. */
export function startOf(span: Span): number {
  return Date.parse(span.started_at);
}

/** Puts spans in their places. Of several with one id, the first counts. */
export function treeOf(spans: readonly Span[]): Tree {
  const known = new Map<string, number>();
  const unique = spans.filter((span) => {
    if (known.has(span.run_id)) return false;
    known.set(span.run_id, known.size);
    return true;
  });
  const starts = unique.map(startOf);
  const parents = unique.map((span) => (span.parent_run_id == null ? -1 : (known.get(span.parent_run_id) ?? -1)));
  cutCircles(parents);

  const byStart = unique.map((_, index) => index).sort((a, b) => (starts[a] ?? 0) - (starts[b] ?? 0) || a - b);
  const children: number[][] = unique.map(() => []);
  const roots: number[] = [];
  for (const index of byStart) (children[parents[index] ?? -1] ?? roots).push(index);

  const places: Place[] = [];
  const byId = new Map<string, number>();
  const types = new Set<string>();
  let deepest = 0;
  // Without recursion: a chain may be as long as the trace.
  const waiting = roots.toReversed().map((index) => ({ index, parent: -1, depth: 0 }));
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const { index, parent, depth } = next;
    const span = unique[index];
    if (!span) continue;
    const position = places.length;
    const parentStart = starts[parents[index] ?? -1];
    places.push({
      span,
      depth,
      parent,
      end: position + 1,
      isAdrift: span.parent_run_id != null && parents[index] === -1,
      earlyMs: parentStart === undefined ? 0 : Math.max(0, parentStart - (starts[index] ?? 0)),
    });
    byId.set(span.run_id, position);
    types.add(span.type ?? "");
    deepest = Math.max(deepest, depth);
    for (const child of (children[index] ?? []).toReversed()) {
      waiting.push({ index: child, parent: position, depth: depth + 1 });
    }
  }
  // From the end: children have told their end before their parent asks.
  for (let position = places.length - 1; position > 0; position -= 1) {
    const place = places[position];
    const parent = places[place?.parent ?? -1];
    if (place && parent) parent.end = Math.max(parent.end, place.end);
  }
  return { places, byId, types: [...types].filter((type) => type !== "").sort(), depth: deepest };
}

/** Makes a root of one span in every circle of parents. */
function cutCircles(parents: number[]) {
  const seenBy = new Int32Array(parents.length).fill(-1);
  for (let start = 0; start < parents.length; start += 1) {
    let at = start;
    while (at >= 0 && seenBy[at] === -1) {
      seenBy[at] = start;
      const above = parents[at] ?? -1;
      if (above >= 0 && seenBy[above] === start) parents[at] = -1;
      at = parents[at] ?? -1;
    }
  }
}

/** Which spans are looked for. */
export type SpanFilter = { text: string; type: string; errors: boolean };

/** Whether anything is looked for. */
export function isLooking(filter: SpanFilter): boolean {
  return filter.text !== "" || filter.type !== "" || filter.errors;
}

function isMatch(span: Span, filter: SpanFilter, text: string): boolean {
  if (filter.errors && span.status !== "error") return false;
  if (filter.type !== "" && span.type !== filter.type) return false;
  if (text === "") return true;
  const { name, run_id, type, model, agent, error, input_preview, output_preview } = span;
  return [name, run_id, type, model, agent, error?.name, error?.message, input_preview, output_preview].some(
    (one) => one?.toLowerCase().includes(text) ?? false,
  );
}

/** A line of the list. */
export type Line = { place: Place; position: number; isOpen: boolean; isMatch: boolean };

/**
 * The lines to show. Below a span that `isOpen` says no to nothing is shown; while something is looked for, what matches
 * is shown with everything above it, open or not.
 */
export function linesOf(
  tree: Tree,
  isOpen: (place: Place) => boolean,
  filter: SpanFilter,
): { lines: Line[]; matches: number } {
  const { places } = tree;
  const lines: Line[] = [];
  if (!isLooking(filter)) {
    let position = 0;
    while (position < places.length) {
      const place = places[position];
      if (!place) break;
      const open = place.end === position + 1 || isOpen(place);
      lines.push({ place, position, isOpen: open, isMatch: true });
      position = open ? position + 1 : place.end;
    }
    return { lines, matches: places.length };
  }
  const text = filter.text.toLowerCase();
  const found = places.map((place) => isMatch(place.span, filter, text));
  const wanted = [...found];
  for (let position = places.length - 1; position >= 0; position -= 1) {
    const parent = places[position]?.parent ?? -1;
    if (wanted[position] && parent >= 0) wanted[parent] = true;
  }
  places.forEach((place, position) => {
    if (wanted[position]) lines.push({ place, position, isOpen: true, isMatch: found[position] ?? false });
  });
  return { lines, matches: found.filter(Boolean).length };
}
