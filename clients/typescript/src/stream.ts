/** Following what comes piece by piece: generators, async iterables and streams, seen without being disturbed. */

import type { Run } from "./run.js";
import { BOUNDS, cutText, type Json, snapshot } from "./snapshot.js";

/** Gathers the pieces of a stream and ends the run with them. Its methods may throw; followers catch that. */
export interface Collector {
  /** Takes a piece; whether it holds something that a model said. */
  add(piece: unknown): boolean;
  /** Ends the run: with the error, if there is one. */
  finish(run: Run, failure?: { error: unknown }): void;
}

/** Pieces as they come: texts as one text, everything else as a list; bounded like every other copy. */
export class Pieces implements Collector {
  private text = "";
  private list: Json[] = [];
  private isText = true;
  private count = 0;
  private bytes = 0;

  /** `keeps` says whether anybody will want to see them. */
  constructor(private readonly keeps: boolean) {}

  add(piece: unknown): boolean {
    if (this.keeps) this.gather(piece);
    return true;
  }

  private gather(piece: unknown): void {
    this.count++;
    if (piece instanceof Uint8Array) {
      this.bytes += piece.byteLength;
      return;
    }
    if (this.isText && typeof piece === "string") {
      if (this.text.length <= BOUNDS.chars) this.text += piece;
      return;
    }
    if (this.isText) {
      this.isText = false;
      if (this.text !== "") this.list.push(this.text);
    }
    if (this.list.length < BOUNDS.items) {
      const left = Math.max(BOUNDS.chars - this.bytes, 0);
      const copy = snapshot(piece, { ...BOUNDS, chars: left });
      this.bytes += copy.bytes;
      this.list.push(copy.value);
    }
  }

  /** What was gathered. */
  value(): Json {
    if (this.count === 0) return undefined;
    if (!this.isText) return this.list;
    return this.text === "" && this.bytes > 0 ? `[stream: ${this.bytes} bytes]` : cutText(this.text, BOUNDS.chars);
  }

  finish(run: Run, failure?: { error: unknown }): void {
    if (failure) run.fail(failure.error, this.value());
    else run.end(this.value());
  }
}

/** A collector that cannot fail and that finishes once. */
class Guard {
  private isOver = false;

  constructor(
    private readonly run: Run,
    private readonly collector: Collector,
  ) {}

  add(piece: unknown): void {
    if (this.isOver) return;
    try {
      if (this.collector.add(piece) && this.run.type === "llm") this.run.firstToken();
    } catch {
      // A piece that cannot be read is left out.
    }
  }

  finish(failure?: { error: unknown }): void {
    if (this.isOver) return;
    this.isOver = true;
    try {
      this.collector.finish(this.run, failure);
    } catch {
      if (failure) this.run.fail(failure.error);
      else this.run.end();
    }
  }
}

type Step = (value?: unknown) => unknown;

/**
 * Whether a value is one of those that `followStream` knows.
 *
 * Not everything that can be iterated is one: a page of a list can, and may never be iterated.
 */
export function isStream(value: unknown): value is object {
  if (typeof value !== "object" || value === null) return false;
  if (typeof ReadableStream === "function" && value instanceof ReadableStream) return true;
  if (Object.prototype.toString.call(value) === "[object Generator]") return true;
  const fields = value as Record<PropertyKey, unknown>;
  if (typeof fields[Symbol.asyncIterator] !== "function") return false;
  const { next, once, destroyed, ended } = fields;
  if (typeof next === "function" || holdsIterator(value)) return true;
  // Streams of Node, and the helpers of model clients, as long as they will still say that they are over.
  return typeof once === "function" && (destroyed === false || ended === false);
}

/** Streams of model clients hold a function of this name that all their other methods use as well. */
function holdsIterator(value: object): boolean {
  return Object.hasOwn(value, "iterator") && typeof (value as { iterator?: unknown }).iterator === "function";
}

/**
 * Sees what comes out of a stream and ends the run when it ends, is given up or fails.
 *
 * Answers what the application is to read: the same object, whose reading is observed, or for a web stream another
 * one in its place. What runs inside a generator runs inside the run.
 */
export function followStream(run: Run, stream: object, collector: Collector): unknown {
  const guard = new Guard(run, collector);
  if (typeof ReadableStream === "function" && stream instanceof ReadableStream) return followReadable(stream, guard);
  if (typeof (stream as { next?: unknown }).next === "function") {
    followIterator(run, stream as Record<string, Step>, guard);
    return stream;
  }
  followIterable(run, stream as Record<PropertyKey, unknown>, guard);
  return stream;
}

/** Puts an observed method in place of the object's own, on this object alone. */
function replace(object: object, name: PropertyKey, method: unknown): void {
  Object.defineProperty(object, name, { value: method, configurable: true, writable: true, enumerable: false });
}

function followIterator(run: Run, iterator: Record<string, Step | undefined>, guard: Guard): void {
  for (const name of ["next", "return", "throw"]) {
    const original = iterator[name];
    if (typeof original !== "function") continue;
    replace(iterator, name, (...values: unknown[]) => {
      let result: unknown;
      try {
        result = run.within(() => original.apply(iterator, values as [unknown?]));
      } catch (error) {
        guard.finish({ error });
        throw error;
      }
      if (!isThenable(result)) {
        step(result, guard);
        return result;
      }
      // The promise of a step is handed on as it is; an observer beside it would hide an unhandled rejection.
      return result.then(
        (value) => {
          step(value, guard);
          return value;
        },
        (error) => {
          guard.finish({ error });
          throw error;
        },
      );
    });
  }
}

function step(result: unknown, guard: Guard): void {
  const { done, value } = (result ?? {}) as IteratorResult<unknown>;
  if (done) guard.finish();
  else guard.add(value);
}

/** Streams that create an iterator, such as streams of model clients: each iterator they make is followed. */
function followIterable(run: Run, stream: Record<PropertyKey, unknown>, guard: Guard): void {
  const name = holdsIterator(stream) ? "iterator" : Symbol.asyncIterator;
  let isIterated = false;
  const original = stream[name] as () => Record<string, Step>;
  replace(stream, name, () => {
    isIterated = true;
    const iterator = original.call(stream);
    followIterator(run, iterator, guard);
    return iterator;
  });
  // Those that are read in another way still say when they are over.
  const { once } = stream;
  if (typeof once !== "function") return;
  if ("destroyed" in stream) {
    once.call(stream, "close", () => guard.finish());
  } else if (stream.ended === false) {
    // Helpers say so before the last pieces are read.
    once.call(stream, "end", () => {
      if (!isIterated) guard.finish(stream.errored ? { error: "the stream failed" } : undefined);
    });
  }
}

function followReadable(stream: ReadableStream, guard: Guard): ReadableStream {
  const reader = stream.getReader();
  return new ReadableStream(
    {
      async pull(controller) {
        try {
          const { done, value } = await reader.read();
          if (done) {
            guard.finish();
            controller.close();
          } else {
            guard.add(value);
            controller.enqueue(value);
          }
        } catch (error) {
          guard.finish({ error });
          controller.error(error);
        }
      },
      cancel(reason) {
        guard.finish();
        return reader.cancel(reason);
      },
    },
    // Nothing is read before the application reads.
    { highWaterMark: 0 },
  );
}

/** Whether a value can be awaited. */
export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === "object" && value !== null && typeof (value as { then?: unknown }).then === "function";
}
