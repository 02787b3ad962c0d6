/** What is current: the run that new runs belong to, and what they inherit from it. */

import type { ContextStore } from "./platform/surface.js";
import { platform } from "./platform.js";

/** The part of a run that code inside of it refers to. */
export interface CurrentRun {
  readonly id: string;
}

/** What a new run takes over from where it is started. */
export interface Context {
  run?: CurrentRun | undefined;
  /** Name of the nearest agent. */
  agent?: string | undefined;
  tags?: readonly string[] | undefined;
  user?: string | undefined;
  thread?: string | undefined;
}

const EMPTY: Context = {};

/**
 * A value of the whole process.
 *
 * An application may load the library twice, by `import` and by `require`; both must see the same current run.
 */
export function shared<T>(name: string, make: () => T): T {
  const place = globalThis as unknown as Record<symbol, T | undefined>;
  const key = Symbol.for(`@spindle/client/${name}`);
  const there = place[key];
  if (there !== undefined) return there;
  const made = make();
  place[key] = made;
  return made;
}

const store = shared<ContextStore<Context>>("context", () => platform.contextStore());

/** The current context, which is never changed, only followed by another. */
export function currentContext(): Context {
  return store.current() ?? EMPTY;
}

/** Runs `fn` in a context. What `fn` throws comes through. */
export function runIn<T>(context: Context, fn: () => T): T {
  return store.run(context, fn);
}
