/** A copy of any value as plain JSON data, bounded in depth, items and characters, taken without ever throwing. */

/** What JSON can say. `undefined` stands for "nothing to say" and is left out where it is a field. */
export type Json = string | number | boolean | null | undefined | Json[] | { [key: string]: Json };

/** How much of a value is kept. */
export interface Bounds {
  /** Levels of objects and lists. */
  depth: number;
  /** Items of one list, and fields of one object. */
  items: number;
  /** Values in the whole copy. */
  nodes: number;
  /** Characters of all texts and field names together; one is up to three bytes of UTF-8. */
  chars: number;
}

/** Texts of 256 Ki characters stay below the server's 1 MiB for one event even where each takes three bytes. */
export const BOUNDS: Readonly<Bounds> = { depth: 24, items: 1_000, nodes: 20_000, chars: 256 * 1024 };

/** A copy and how many bytes it takes in memory, roughly. */
export interface Snapshot {
  value: Json;
  bytes: number;
}

/** What one value costs beside its characters: a field or an item of a list, with what the engine keeps about it. */
const NODE_BYTES = 24;
/** The prototype of every typed array. */
const TypedArray = Object.getPrototypeOf(Uint8Array);

/**
 * Copies `value`, so that later changes to it do not show.
 *
 * What is too large is cut and says so in brackets. Cycles, functions, streams and whatever throws while it is read
 * become a text in brackets; BigInt and numbers that JSON has no word for become texts; errors keep name, message and
 * stack; maps become objects where their keys are texts; `toJSON` is honoured.
 */
export function snapshot(value: unknown, bounds: Readonly<Bounds> = BOUNDS): Snapshot {
  const copier = new Copier(bounds);
  const copy = copier.copy(value, 0);
  return { value: copy, bytes: copier.bytes() };
}

/** A text of at most `chars` characters, cut visibly. */
export function cutText(text: string, chars: number): string {
  if (text.length <= chars) return text;
  // A slice would keep the whole text in memory; a copy through bytes does not. Halves of a character are replaced.
  const head = new TextDecoder().decode(new TextEncoder().encode(text.slice(0, chars)));
  return `${head} [cut: ${text.length - chars} more characters]`;
}

class Copier {
  private nodesLeft: number;
  private charsLeft: number;
  /** The objects that lead to the one being copied. */
  private readonly path: object[] = [];

  constructor(private readonly bounds: Readonly<Bounds>) {
    this.nodesLeft = bounds.nodes;
    this.charsLeft = bounds.chars;
  }

  bytes(): number {
    const nodes = this.bounds.nodes - Math.max(this.nodesLeft, 0);
    return nodes * NODE_BYTES + (this.bounds.chars - this.charsLeft);
  }

  copy(value: unknown, depth: number): Json {
    this.nodesLeft--;
    switch (typeof value) {
      case "string":
        return this.text(value);
      case "number":
        return Number.isFinite(value) ? value : String(value);
      case "boolean":
      case "undefined":
        return value;
      case "bigint":
        return this.text(value.toString());
      case "object":
        return value === null ? null : this.object(value, depth);
      case "function":
        return this.label("function", value);
      default:
        return this.text(String(value));
    }
  }

  private text(text: string): string {
    if (text.length <= this.charsLeft) {
      this.charsLeft -= text.length;
      return text;
    }
    const cut = cutText(text, this.charsLeft);
    this.charsLeft = 0;
    return cut;
  }

  /** A name in brackets for what has no content to show. */
  private label(what: string, value: { name?: unknown }): string {
    try {
      const name = value.name;
      return this.text(typeof name === "string" && name !== "" ? `[${what} ${name}]` : `[${what}]`);
    } catch {
      return `[${what}]`;
    }
  }

  private object(value: object, depth: number): Json {
    if (this.nodesLeft < 0 || this.charsLeft === 0) return "[cut: too large]";
    if (this.path.includes(value)) return "[cycle]";
    if (depth >= this.bounds.depth) return "[cut: too deep]";
    this.path.push(value);
    try {
      return this.known(value, depth);
    } catch (error) {
      return this.unreadable(error);
    } finally {
      this.path.pop();
    }
  }

  private unreadable(error: unknown): string {
    try {
      return this.text(`[unreadable: ${error instanceof Error ? error.message : typeof error}]`);
    } catch {
      return "[unreadable]";
    }
  }

  private known(value: object, depth: number): Json {
    if (Array.isArray(value)) return this.list(value, value.length, depth);
    const prototype = Object.getPrototypeOf(value);
    if (prototype === Object.prototype || prototype === null) {
      const own = (value as { toJSON?: unknown }).toJSON;
      return typeof own === "function" ? this.copy(own.call(value), depth + 1) : this.fields(value, depth);
    }
    if (value instanceof Date) return Number.isNaN(value.getTime()) ? "[invalid date]" : value.toISOString();
    if (value instanceof Error) return this.error(value, depth);
    if (value instanceof Map) return this.map(value, depth);
    if (value instanceof Set) return this.list(value, value.size, depth);
    if (value instanceof RegExp) return this.text(String(value));
    if (value instanceof ArrayBuffer) return `[ArrayBuffer: ${value.byteLength} bytes]`;
    if (ArrayBuffer.isView(value)) {
      const kind = value instanceof TypedArray ? value.constructor.name : "DataView";
      return `[${kind}: ${value.byteLength} bytes]`;
    }
    if (value instanceof String || value instanceof Number || value instanceof Boolean) {
      return this.copy(value.valueOf(), depth);
    }
    const toJson = (value as { toJSON?: unknown }).toJSON;
    if (typeof toJson === "function") return this.copy(toJson.call(value), depth + 1);
    const fields = this.fields(value, depth);
    for (const _ in fields) return fields;
    return this.label("object", (value.constructor ?? {}) as { name?: unknown });
  }

  private list(items: Iterable<unknown>, length: number, depth: number): Json[] {
    const copy: Json[] = [];
    for (const item of items) {
      if (copy.length >= this.bounds.items || this.nodesLeft < 0) {
        copy.push(`[cut: ${length - copy.length} more items]`);
        break;
      }
      const value = this.copy(item, depth + 1);
      copy.push(value === undefined ? null : value);
    }
    return copy;
  }

  private fields(value: object, depth: number): { [key: string]: Json } {
    const copy: { [key: string]: Json } = {};
    const keys = Object.keys(value);
    let kept = 0;
    for (const key of keys) {
      if (kept >= this.bounds.items || this.nodesLeft < 0 || this.charsLeft === 0) {
        copy["[cut]"] = `${keys.length - kept} more fields`;
        break;
      }
      kept++;
      let field: Json;
      try {
        field = this.copy((value as Record<string, unknown>)[key], depth + 1);
      } catch (error) {
        field = this.unreadable(error);
      }
      if (field !== undefined) put(copy, this.text(key), field);
    }
    return copy;
  }

  private map(map: Map<unknown, unknown>, depth: number): Json {
    for (const key of map.keys()) {
      if (typeof key !== "string") return this.list(map, map.size, depth);
    }
    const copy: { [key: string]: Json } = {};
    let kept = 0;
    for (const [key, item] of map as Map<string, unknown>) {
      if (kept >= this.bounds.items || this.nodesLeft < 0 || this.charsLeft === 0) {
        copy["[cut]"] = `${map.size - kept} more fields`;
        break;
      }
      kept++;
      const value = this.copy(item, depth + 1);
      if (value !== undefined) put(copy, this.text(key), value);
    }
    return copy;
  }

  private error(error: Error, depth: number): Json {
    const copy = this.fields(error, depth);
    for (const key of ["name", "message", "stack"] as const) {
      const text = error[key];
      if (typeof text === "string") copy[key] = this.text(text);
    }
    if (error.cause !== undefined) copy.cause = this.copy(error.cause, depth + 1);
    return copy;
  }
}

/** Sets a field of any name: assigning to `__proto__` would set no field. */
function put(copy: { [key: string]: Json }, key: string, value: Json): void {
  if (key === "__proto__") {
    Object.defineProperty(copy, key, { value, enumerable: true, configurable: true, writable: true });
  } else {
    copy[key] = value;
  }
}
