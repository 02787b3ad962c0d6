/** Functions that report themselves as runs: called, awaited and iterated as before. */

import type { Usage } from "./event.js";
import { follow, type Shape } from "./follow.js";
import type { Run, RunOptions } from "./run.js";
import { Pieces } from "./stream.js";

// biome-ignore lint/suspicious/noExplicitAny: any function at all
export type AnyFunction = (...args: any[]) => any;

/** What may be said about each call of a function. `name` is given apart; an id belongs to one run. */
export interface WrapperOptions<F extends AnyFunction> extends Omit<RunOptions, "name" | "runId" | "input"> {
  /** What to report as input. Default: the argument, or the list of arguments. */
  input?: ((...args: Parameters<F>) => unknown) | undefined;
  /** What to report as output. Default: the result. Not for streams. */
  output?: ((result: Awaited<ReturnType<F>>) => unknown) | undefined;
  /** What the call spent, read from its result. Not for streams: there, `currentRun().usage(...)`. */
  usage?: ((result: Awaited<ReturnType<F>>) => Usage | undefined) | undefined;
}

/** Begins runs; the one thing of a client that is needed here. */
export type Start = (options: RunOptions) => Run;

/** Wraps `fn`. The result keeps `this`, arguments, results, errors, name and length of the original. */
export function wrap<F extends AnyFunction>(start: Start, name: string, fn: F, options: WrapperOptions<F> = {}): F {
  if (typeof fn !== "function") return fn;
  const { input, output, usage, ...rest } = options ?? {};
  const shape: Shape = {
    finish: (run, value) => {
      const result = value as Awaited<ReturnType<F>>;
      if (usage) run.usage(usage(result));
      run.end(output ? output(result) : result);
    },
    collector: (run) => new Pieces(run.capturesOutput),
  };
  const wrapped = function (this: unknown, ...args: Parameters<F>): unknown {
    const run = start({ ...rest, name, input: inputOf(args, input) });
    let result: unknown;
    try {
      result = run.within(() => fn.apply(this, args));
    } catch (error) {
      run.fail(error);
      throw error;
    }
    return follow(run, result, shape);
  };
  Object.defineProperty(wrapped, "name", { value: fn.name, configurable: true });
  Object.defineProperty(wrapped, "length", { value: fn.length, configurable: true });
  return wrapped as F;
}

function inputOf<A extends unknown[]>(args: A, input: ((...args: A) => unknown) | undefined): unknown {
  if (!input) return args.length > 1 ? args : args[0];
  try {
    return input(...args);
  } catch {
    return "[unreadable: the input function failed]";
  }
}
