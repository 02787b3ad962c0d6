import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type DiffLine, diffLines, sideBySide } from "./line-diff";

const texts = fc.array(fc.constantFrom("a", "b", "c", ""), { maxLength: 15 }).map((lines) => lines.join("\n"));
const side = (lines: DiffLine[], which: "a" | "b") =>
  lines
    .filter((line) => line.in === "both" || line.in === which)
    .map((line) => line.text)
    .join("\n");

describe("a line diff", () => {
  it("holds both texts", () => {
    fc.assert(
      fc.property(texts, texts, (a, b) => {
        const lines = diffLines(a, b) ?? [];
        expect([side(lines, "a"), side(lines, "b")]).toEqual([a, b]);
        if (a === b) expect(lines.every((line) => line.in === "both")).toBe(true);
      }),
    );
  });

  it("is as short as it can be", () => {
    expect(diffLines("x\na\ny", "x\nb\ny")).toEqual([
      { in: "both", text: "x" },
      { in: "a", text: "a" },
      { in: "b", text: "b" },
      { in: "both", text: "y" },
    ]);
    const kept = (diffLines("a\nb\nc\na\nb\nb\na", "c\nb\na\nb\na\nc") ?? []).filter((line) => line.in === "both");
    expect(kept).toHaveLength(4);
  });

  it("is not made of what is too large", () => {
    const lines = (from: number, step: number) =>
      Array.from({ length: 3_000 }, (_, index) => String(from + index * step)).join("\n");
    expect(diffLines(lines(0, 1), lines(10_000, 1))).toBeUndefined();
    expect(diffLines("x\n".repeat(30_000), "x")).toBeUndefined();
    // Large and nearly equal is no trouble.
    expect(diffLines(`${lines(0, 1)}\nend`, `${lines(0, 1)}\nEnd`)?.filter((line) => line.in !== "both")).toHaveLength(
      2,
    );
  });
});

describe("two texts side by side", () => {
  it("leave nothing out but equal lines, and count those", () => {
    fc.assert(
      fc.property(texts, texts, (a, b) => {
        const lines = diffLines(a, b) ?? [];
        const rows = sideBySide(lines);
        let [left, right] = [0, 0];
        for (const row of rows) {
          if ("skipped" in row) {
            left += row.skipped;
            right += row.skipped;
          } else {
            left += row.a === undefined ? 0 : 1;
            right += row.b === undefined ? 0 : 1;
          }
        }
        expect([left, right]).toEqual([a.split("\n").length, b.split("\n").length]);
      }),
    );
  });

  it("show a changed line beside what it became, with its neighbours", () => {
    const before = Array.from({ length: 20 }, (_, index) => `line ${index}`);
    const after = before.with(10, "changed");
    expect(sideBySide(diffLines(before.join("\n"), after.join("\n")) ?? [])).toEqual([
      { skipped: 7 },
      ...[7, 8, 9].map((index) => ({ a: `line ${index}`, b: `line ${index}`, isEqual: true })),
      { a: "line 10", b: "changed", isEqual: false },
      ...[11, 12, 13].map((index) => ({ a: `line ${index}`, b: `line ${index}`, isEqual: true })),
      { skipped: 6 },
    ]);
  });
});
