import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { withoutInternal } from "./internal-spans";
import type { Span } from "./span-tree";

function spanOf(run_id: string, parent_run_id: string | null, type: string): Span {
  return { run_id, parent_run_id, type } as Span;
}

/** Spans whose parents are anything: others, themselves, each other, none, an unknown run. */
const traces = fc
  .uniqueArray(fc.tuple(fc.nat(30), fc.integer({ min: -1, max: 32 }), fc.boolean()), {
    maxLength: 30,
    selector: ([id]) => id,
  })
  .map((list) =>
    list.map(([id, parent, isInternal]) =>
      spanOf(`s${id}`, parent === -1 ? null : `s${parent}`, isInternal ? "internal" : "llm"),
    ),
  );

describe("spans without internal ones", () => {
  it("leave out internal spans and move what is below them up", () => {
    const { spans, left } = withoutInternal(
      [
        spanOf("turn", null, "chain"),
        spanOf("a", "turn", "internal"),
        spanOf("b", "a", "internal"),
        spanOf("call", "b", "llm"),
        spanOf("tool", "a", "tool"),
        spanOf("below", "tool", "internal"),
      ],
      "",
    );
    expect(spans.map((span) => [span.run_id, span.parent_run_id])).toEqual([
      ["turn", null],
      ["call", "turn"],
      ["tool", "turn"],
    ]);
    expect(left).toBe(3);
  });

  it("keep the first span of a trace and the one that was asked for", () => {
    const trace = [spanOf("start", null, "internal"), spanOf("a", "start", "internal"), spanOf("b", "a", "internal")];
    expect(withoutInternal(trace, "").spans.map((span) => span.run_id)).toEqual(["start"]);
    const { spans } = withoutInternal(trace, "b");
    expect(spans.map((span) => [span.run_id, span.parent_run_id])).toEqual([
      ["start", null],
      ["b", "start"],
    ]);
  });

  it("lose no other span, and each is below what was above it", () => {
    fc.assert(
      fc.property(traces, (trace) => {
        const { spans, left } = withoutInternal(trace, "");
        const byId = new Map(trace.map((span) => [span.run_id, span]));
        const shown = new Set(spans.map((span) => span.run_id));
        expect(spans.length + left).toBe(trace.length);
        for (const span of trace) if (span.type !== "internal") expect(shown.has(span.run_id)).toBe(true);
        for (const span of spans) {
          // Up the parents as they were, without those that are not shown.
          const seen = new Set([span.run_id]);
          let above = byId.get(span.run_id)?.parent_run_id ?? null;
          while (above !== null && byId.has(above) && !shown.has(above)) {
            if (seen.has(above)) {
              above = null;
              break;
            }
            seen.add(above);
            above = byId.get(above)?.parent_run_id ?? null;
          }
          expect(span.parent_run_id ?? null).toBe(above);
        }
      }),
    );
  });
});
