/** Counts the rows of a file as it comes in, bytes at a time. Pure. */

/** A form of export. */
export type ExportFormat = "jsonl" | "openai-jsonl" | "csv" | "parquet";

const NEW_LINE = 0x0a;
const QUOTE = 0x22;

/** Rows so far; nothing for a form whose rows cannot be told before its end. */
export type RowCounter = {
  take: (bytes: Uint8Array) => void;
  rows: () => number | undefined;
};

/** A counter for this form. */
export function rowCounter(format: ExportFormat): RowCounter {
  if (format === "parquet") return { take: () => {}, rows: () => undefined };
  let lines = 0;
  let isQuoted = false;
  const knowsQuotes = format === "csv";
  return {
    take(bytes) {
      for (const byte of bytes) {
        // A quote inside quoted text is written twice: it leaves and enters again.
        if (knowsQuotes && byte === QUOTE) isQuoted = !isQuoted;
        else if (byte === NEW_LINE && !isQuoted) lines += 1;
      }
    },
    // The first line of CSV names the columns.
    rows: () => (knowsQuotes ? Math.max(0, lines - 1) : lines),
  };
}
