/** What differs between two texts, line by line. Pure, and bounded: two large texts are not compared. */

/** A line of the result: in both, only in the first (`a`), or only in the second (`b`). */
export type DiffLine = { in: "both" | "a" | "b"; text: string };

/** Cells of the table that may be filled: a few tens of milliseconds. */
const MAX_CELLS = 4_000_000;
/** Lines of each text. */
const MAX_LINES = 20_000;

/** The differences, the fewest there are; nothing where the texts are too large to be compared. */
export function diffLines(a: string, b: string): DiffLine[] | undefined {
  const [left, right] = [a.split("\n"), b.split("\n")];
  if (left.length > MAX_LINES || right.length > MAX_LINES) return undefined;
  const least = Math.min(left.length, right.length);
  let head = 0;
  while (head < least && left[head] === right[head]) head += 1;
  let tail = 0;
  while (tail < least - head && left.at(-1 - tail) === right.at(-1 - tail)) tail += 1;
  const middle = compare(left.slice(head, left.length - tail), right.slice(head, right.length - tail));
  if (!middle) return undefined;
  return [...both(left.slice(0, head)), ...middle, ...both(left.slice(left.length - tail))];
}

function both(lines: string[]): DiffLine[] {
  return lines.map((text) => ({ in: "both", text }));
}

/** The longest common subsequence, from the end: then the walk from the beginning needs no turning around. */
function compare(a: string[], b: string[]): DiffLine[] | undefined {
  const width = b.length + 1;
  if ((a.length + 1) * width > MAX_CELLS) return undefined;
  const common = new Uint32Array((a.length + 1) * width);
  const at = (i: number, j: number) => common[i * width + j] ?? 0;
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      common[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const lines: DiffLine[] = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push({ in: "both", text: a[i] ?? "" });
      i += 1;
      j += 1;
    } else if (j >= b.length || (i < a.length && at(i + 1, j) >= at(i, j + 1))) {
      lines.push({ in: "a", text: a[i] ?? "" });
      i += 1;
    } else {
      lines.push({ in: "b", text: b[j] ?? "" });
      j += 1;
    }
  }
  return lines;
}

/** Lines of one row beside each other, for two columns. A changed line stands beside what it became. */
export type Pair = { a?: string; b?: string; isEqual: boolean };
/** Rows, or how many equal lines were left out between them. */
export type Row = Pair | { skipped: number };

/** Equal lines kept around a difference. */
const AROUND = 3;

/** Puts the lines side by side, and leaves out long stretches that are equal. */
export function sideBySide(lines: DiffLine[]): Row[] {
  const pairs: Pair[] = [];
  let [only, other]: [string[], string[]] = [[], []];
  const flush = () => {
    for (let index = 0; index < Math.max(only.length, other.length); index += 1) {
      const [a, b] = [only[index], other[index]];
      pairs.push({ ...(a === undefined ? {} : { a }), ...(b === undefined ? {} : { b }), isEqual: false });
    }
    [only, other] = [[], []];
  };
  for (const line of lines) {
    if (line.in === "a") only.push(line.text);
    else if (line.in === "b") other.push(line.text);
    else {
      flush();
      pairs.push({ a: line.text, b: line.text, isEqual: true });
    }
  }
  flush();
  return skipEqual(pairs);
}

function skipEqual(pairs: Pair[]): Row[] {
  const isNear = new Uint8Array(pairs.length);
  pairs.forEach((pair, index) => {
    if (!pair.isEqual) isNear.fill(1, Math.max(0, index - AROUND), index + AROUND + 1);
  });
  const rows: Row[] = [];
  let start = 0;
  while (start < pairs.length) {
    let end = start;
    while (end < pairs.length && isNear[end] === isNear[start]) end += 1;
    // A single line is shorter than the words that would stand for it.
    if (isNear[start] || end - start < 2) rows.push(...pairs.slice(start, end));
    else rows.push({ skipped: end - start });
    start = end;
  }
  return rows;
}
