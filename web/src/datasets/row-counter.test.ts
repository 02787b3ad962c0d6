import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type ExportFormat, rowCounter } from "./row-counter";

function count(format: ExportFormat, text: string, size = 7): number | undefined {
  const bytes = new TextEncoder().encode(text);
  const counter = rowCounter(format);
  for (let at = 0; at < bytes.length; at += size) counter.take(bytes.subarray(at, at + size));
  return counter.rows();
}

const quoted = (cell: string) => `"${cell.replaceAll('"', '""')}"`;

describe("rows of a file that comes in", () => {
  it("are lines of JSON", () => {
    expect(count("jsonl", "")).toBe(0);
    expect(count("openai-jsonl", '{"a":1}\n{"a":"\\n"}\n')).toBe(2);
  });

  it("are records of CSV, whatever its cells hold and wherever it is cut", () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.string({ unit: "binary" }), fc.string()), { maxLength: 20 }),
        fc.integer({ min: 1, max: 9 }),
        (records, size) => {
          const text = ["a,b", ...records.map((cells) => cells.map(quoted).join(","))].map((line) => `${line}\r\n`);
          expect(count("csv", text.join(""), size)).toBe(records.length);
        },
      ),
    );
  });

  it("are not known of parquet", () => {
    expect(count("parquet", "PAR1\n\n")).toBeUndefined();
  });
});
