/** How much of something large is shown: a beginning, and more in steps. Pure. */

import { ExactNumber, writeExact } from "./exact-json";

/** Characters of a text that are shown at first, and in a compact place. */
export const FIRST_CHARS = 4_000;
export const COMPACT_CHARS = 600;
/** Characters that come with each "show more". */
export const STEP_CHARS = 40_000;
/** How far before a cut a line's end is looked for: at most this, and at most a quarter of the piece. */
const LINE_CHARS = 400;
const LINE_PART = 4;

/**
 * Cuts a text into pieces: the first of at most `first` characters, the others of at most [`STEP_CHARS`]. Joined they are
 * the text. No character is cut in two, and where a line ends near a cut, the cut is there.
 */
export function piecesOf(text: string, first: number, pieces: number): string[] {
  const cut: string[] = [];
  let start = 0;
  while (start < text.length && cut.length < pieces) {
    const end = cutBefore(text, start, start + (cut.length === 0 ? first : STEP_CHARS));
    cut.push(text.slice(start, end));
    start = end;
  }
  return cut;
}

function cutBefore(text: string, start: number, limit: number): number {
  if (limit >= text.length) return text.length;
  const line = text.lastIndexOf("\n", limit - 1) + 1;
  const near = Math.min(LINE_CHARS, (limit - start) / LINE_PART);
  if (line > start && limit - line <= near) return line;
  const code = text.charCodeAt(limit - 1);
  const isPair = code >= 0xd800 && code <= 0xdbff;
  return isPair && limit - 1 > start ? limit - 1 : isPair ? limit + 1 : limit;
}

/** Entries of a list or an object that are shown at first, and with each "show more". */
export const FIRST_ENTRIES = 50;
export const STEP_ENTRIES = 200;
/** Lines that a tree of JSON may have when nothing was opened by hand, and in a compact place. */
export const FIRST_LINES = 60;
export const COMPACT_LINES = 8;

/** How many entries are shown after so many steps. */
export function entriesShown(total: number, steps: number): number {
  return Math.min(total, FIRST_ENTRIES + steps * STEP_ENTRIES);
}

/** The entries of a list or an object. */
export function entriesOf(value: object): [string, unknown][] {
  return Array.isArray(value) ? value.map((one, index) => [String(index), one]) : Object.entries(value);
}

/** How many entries something has; nothing for what has none by nature. */
export function entryCount(value: unknown): number | undefined {
  if (typeof value !== "object" || value === null || value instanceof ExactNumber) return undefined;
  return Array.isArray(value) ? value.length : Object.keys(value).length;
}

/** The path of an entry below a path. */
export function pathTo(path: string, key: string): string {
  return `${path}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

/** Paths that are open at first: from the outside in, as long as the lines stay few. The root always is. */
export function openAtFirst(root: unknown, maxLines: number = FIRST_LINES): Set<string> {
  const open = new Set<string>();
  let lines = 0;
  let level: [string, unknown][] = [["", root]];
  while (level.length > 0 && lines < maxLines) {
    const next: [string, unknown][] = [];
    for (const [path, value] of level) {
      const entries = entryCount(value);
      if (!entries) continue;
      const shown = entriesShown(entries, 0);
      if (path !== "" && lines + shown > maxLines) continue;
      open.add(path);
      lines += shown;
      for (const [key, child] of entriesOf(value as object).slice(0, shown)) next.push([pathTo(path, key), child]);
    }
    level = next;
  }
  return open;
}

/** A value as text: a string as it is, anything else as JSON over several lines. */
export function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  if (value === undefined) return "";
  try {
    return writeExact(value, 2);
  } catch {
    // Deeper than the browser can write.
    return "The value is nested too deeply to be shown as text.";
  }
}

/** Bytes of a text in UTF-8, without making a copy of it. */
export function utf8Bytes(text: string): number {
  let size = text.length;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code < 0x80) continue;
    if (code < 0x800) size += 1;
    else if (code >= 0xd800 && code <= 0xdbff && isLow(text.charCodeAt(at + 1))) {
      size += 2;
      at += 1;
    } else size += 2;
  }
  return size;
}

function isLow(code: number): boolean {
  return code >= 0xdc00 && code <= 0xdfff;
}
