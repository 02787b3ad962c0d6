/** JSON read with its places and with its numbers as they were written. Pure. */

/** What stands somewhere in a text, from `at` up to `end`. */
export type JsonNode = { at: number; end: number } & (
  | { kind: "object"; members: [string, JsonNode][] }
  | { kind: "array"; items: JsonNode[] }
  | { kind: "number"; digits: string }
  | { kind: "plain"; value: string | boolean | null }
);

/** Where a text is no JSON, and why. */
export class JsonFault extends Error {
  override name = "JsonFault";
  constructor(
    message: string,
    /** Characters before it. */
    readonly at: number,
  ) {
    super(message);
  }
}

// Far deeper than anything anybody writes, and far from the end of the stack.
const DEPTH_MAX = 500;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON allows none of them in a string
const STRING = /"[^"\\\u0000-\u001f]*(?:\\(?:["\\/bfnrt]|u[\da-fA-F]{4})[^"\\\u0000-\u001f]*)*"/y;
const BLANK = /[ \t\r\n]*/y;
const WORDS = { true: true, false: false, null: null } as const;

/** Reads a text; throws a [`JsonFault`]. */
export function readJson(text: string): JsonNode {
  let at = 0;
  const match = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at;
    const found = pattern.exec(text)?.[0];
    if (found !== undefined) at += found.length;
    return found;
  };
  const skip = () => match(BLANK);
  const fail = (wanted: string): never => {
    const found = at >= text.length ? "the end" : JSON.stringify(String.fromCodePoint(text.codePointAt(at) ?? 0));
    throw new JsonFault(`${wanted} is expected here, not ${found}`, at);
  };
  const name = (): string => {
    const found = text[at] === '"' ? match(STRING) : undefined;
    if (found === undefined) return fail(text[at] === '"' ? "A closed, well-formed text" : "A name in quotes");
    return JSON.parse(found) as string;
  };
  const take = (letter: string, wanted: string) => {
    skip();
    if (text[at] !== letter) fail(wanted);
    at += 1;
    skip();
  };
  /** Reads what stands between two brackets, one after the other. */
  const between = (close: string, one: () => void) => {
    at += 1;
    skip();
    if (text[at] === close) {
      at += 1;
      return;
    }
    for (;;) {
      one();
      skip();
      if (text[at] === close) break;
      take(",", `A comma or "${close}"`);
    }
    at += 1;
  };
  const value = (depth: number): JsonNode => {
    const from = at;
    if (depth > DEPTH_MAX) throw new JsonFault(`The value is nested more than ${DEPTH_MAX} levels deep`, at);
    if (text[at] === "{") {
      const members: [string, JsonNode][] = [];
      between("}", () => {
        const key = name();
        take(":", "A colon");
        members.push([key, value(depth + 1)]);
      });
      return { kind: "object", members, at: from, end: at };
    }
    if (text[at] === "[") {
      const items: JsonNode[] = [];
      between("]", () => items.push(value(depth + 1)));
      return { kind: "array", items, at: from, end: at };
    }
    if (text[at] === '"') return { kind: "plain", value: name(), at: from, end: at };
    const digits = match(NUMBER);
    if (digits !== undefined) return { kind: "number", digits, at: from, end: at };
    for (const [word, means] of Object.entries(WORDS)) {
      if (text.startsWith(word, at)) {
        at += word.length;
        return { kind: "plain", value: means, at: from, end: at };
      }
    }
    return fail("A value");
  };
  skip();
  const whole = value(0);
  skip();
  if (at < text.length) fail("Nothing more");
  return whole;
}

/** What stands at a path; the nearest thing around it where it is not there. */
export function nodeAt(whole: JsonNode, path: string[]): JsonNode {
  let node = whole;
  for (const step of path) {
    let next: JsonNode | undefined;
    // The last of several of one name is what counts.
    if (node.kind === "object") next = node.members.findLast(([key]) => key === step)?.[1];
    else if (node.kind === "array") next = node.items[Number(step)];
    if (!next) break;
    node = next;
  }
  return node;
}

/** A value as JavaScript has it, with numbers as the texts that were written. */
export function exact(node: JsonNode): unknown {
  switch (node.kind) {
    case "object":
      return Object.fromEntries(node.members.map(([key, inner]) => [key, exact(inner)]));
    case "array":
      return node.items.map(exact);
    case "number":
      return node.digits;
    default:
      return node.value;
  }
}

/** The steps of a JSON pointer such as `/processes/0/name`. */
export function pointerSteps(pointer: string): string[] {
  return pointer
    .split("/")
    .slice(1)
    .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** The steps in the server's words, such as `` `processes[1].name` has to be text`` or `processes[0].schema: ... at /type`. */
export function wordedSteps(message: string): string[] {
  const place = /^`?([a-zA-Z]+(?:\[\d+\])?(?:\.[a-zA-Z]+(?:\[\d+\])?)*)`?(?=[: ])/.exec(message)?.[1];
  if (!place || !/[[.]/.test(place)) return place && message.startsWith("`") ? [place] : [];
  const steps = place.split(/[.[\]]+/).filter((step) => step !== "");
  const inner = place.endsWith("schema") ? / at (\/\S*)$/.exec(message)?.[1] : undefined;
  return inner ? [...steps, ...pointerSteps(inner)] : steps;
}

/** Line and column of a place in a text, both from 1. */
export function lineOf(text: string, at: number): { line: number; column: number } {
  const before = text.slice(0, at);
  return { line: before.split("\n").length, column: at - before.lastIndexOf("\n") };
}

/** The place of a line and column, as servers name it. */
export function placeOf(text: string, line: number, column: number): number {
  const lines = text.split("\n");
  const before = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  return Math.min(text.length, before + Math.max(0, column - 1));
}
