import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { linesOf, type Span, treeOf } from "./span-tree";

const START = Date.parse("2026-11-21T10:00:00.000Z");

/** A span with what the tree looks at. */
function spanOf(run_id: string, parent_run_id: string | null, startMs: number, more: Partial<Span> = {}): Span {
  return {
    run_id,
    parent_run_id,
    started_at: new Date(START + startMs).toISOString(),
    ended_at: new Date(START + startMs + 10).toISOString(),
    status: "success",
    name: run_id,
    type: "tool",
    ...more,
  } as Span;
}

/** Spans whose parents are anything: others, themselves, each other, none, an unknown run. */
const traces = fc
  .array(fc.tuple(fc.nat(30), fc.integer({ min: -3, max: 30 }), fc.nat(50), fc.boolean()), { maxLength: 40 })
  .map((list) =>
    list.map(([id, parent, start, isError]) =>
      spanOf(`s${id}`, parent === -1 ? null : `s${parent}`, start, { status: isError ? "error" : "success" }),
    ),
  );
const all = { text: "", type: "", errors: false };

describe("a tree of spans", () => {
  it("has each span once, parents before children, whatever names whom as its parent", () => {
    fc.assert(
      fc.property(traces, (spans) => {
        const { places, byId } = treeOf(spans);
        const ids = places.map((place) => place.span.run_id);
        expect([...ids].sort()).toEqual([...new Set(spans.map((span) => span.run_id))].sort());
        places.forEach((place, position) => {
          expect(byId.get(place.span.run_id)).toBe(position);
          const parent = places[place.parent];
          if (!parent) {
            expect([place.parent, place.depth]).toEqual([-1, 0]);
            return;
          }
          expect(parent.span.run_id).toBe(place.span.parent_run_id);
          expect(place.parent).toBeLessThan(position);
          expect(place.depth).toBe(parent.depth + 1);
          expect(place.end).toBeLessThanOrEqual(parent.end);
        });
      }),
    );
  });

  it("takes a parent from a span only where that one is missing or below it", () => {
    fc.assert(
      fc.property(traces, (spans) => {
        const { places, byId } = treeOf(spans);
        const named = new Map(places.map(({ span }) => [span.run_id, span.parent_run_id]));
        for (const { span, isAdrift } of places) {
          if (!isAdrift) continue;
          let above = span.parent_run_id;
          for (
            let step = 0;
            step < places.length && above != null && byId.has(above) && above !== span.run_id;
            step += 1
          )
            above = named.get(above);
          expect(above === span.run_id || !byId.has(span.parent_run_id ?? "")).toBe(true);
        }
      }),
    );
  });

  it("says who begins before their parent", () => {
    const { places } = treeOf([spanOf("a", null, 100), spanOf("b", "a", 40), spanOf("c", "a", 100)]);
    expect(places.map((place) => [place.span.run_id, place.earlyMs])).toEqual([
      ["a", 0],
      ["b", 60],
      ["c", 0],
    ]);
  });

  it("of a chain as long as a trace may be is built at once", () => {
    const chain = Array.from({ length: 10_000 }, (_, index) =>
      spanOf(`s${index}`, index ? `s${index - 1}` : null, index),
    );
    const began = performance.now();
    const tree = treeOf(chain.toReversed());
    expect(tree.depth).toBe(9_999);
    expect(linesOf(tree, () => true, all).lines).toHaveLength(10_000);
    expect(performance.now() - began).toBeLessThan(1_000);
  });
});

describe("the lines of a tree", () => {
  it("leave out exactly what is below closed spans", () => {
    fc.assert(
      fc.property(traces, fc.func(fc.boolean()), (spans, answer) => {
        const tree = treeOf(spans);
        const isOpen = (id: string) => Boolean(answer(id));
        const { lines } = linesOf(tree, (place) => isOpen(place.span.run_id), all);
        const shown = new Set(lines.map((line) => line.position));
        tree.places.forEach((place, position) => {
          const parent = tree.places[place.parent];
          const expected = !parent || (shown.has(place.parent) && isOpen(parent.span.run_id));
          expect(shown.has(position)).toBe(expected);
        });
      }),
    );
  });

  it("that were looked for stand below all their parents", () => {
    fc.assert(
      fc.property(traces, (spans) => {
        const tree = treeOf(spans);
        const { lines, matches } = linesOf(tree, () => false, { ...all, errors: true });
        const shown = new Set(lines.map((line) => line.position));
        for (const line of lines) expect(line.place.parent === -1 || shown.has(line.place.parent)).toBe(true);
        const errors = tree.places.filter((place) => place.span.status === "error").length;
        expect([matches, lines.filter((line) => line.isMatch).length]).toEqual([errors, errors]);
      }),
    );
    const tree = treeOf([
      spanOf("root", null, 0),
      spanOf("Search", "root", 1, { type: "llm" }),
      spanOf("x", "root", 2),
    ]);
    const found = linesOf(tree, () => false, { text: "SEAR", type: "llm", errors: false });
    expect(found.lines.map((line) => [line.place.span.run_id, line.isMatch])).toEqual([
      ["root", false],
      ["Search", true],
    ]);
  });
});
