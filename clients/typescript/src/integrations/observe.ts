/** Putting an observed method in the place of a model client's own. */

import type { Spindle } from "../client.js";
import { defaultClient } from "../default-client.js";
import { follow, type Shape } from "../follow.js";
import type { RunOptions } from "../run.js";
import { fieldsOf } from "./fields.js";

/** How to report the calls of a model client. */
export interface ObserveOptions {
  /** The client that reports. Default: the default client, looked up at each call. */
  spindle?: Spindle | undefined;
  /** Tags of every call. */
  tags?: readonly string[] | undefined;
  /** Default: the client's. */
  captureInput?: boolean | undefined;
  /** Default: the client's. */
  captureOutput?: boolean | undefined;
}

/** What one method of a model client means. */
export interface Method {
  /** The run to begin for these parameters. */
  begin(parameters: Record<string, unknown>): RunOptions;
  /** How its end is reported. */
  shape(): Shape;
}

const OBSERVED = Symbol.for("@spindle/client/observed");

/** Observes `owner[name]`, once, on this object alone. What is not there is left alone. */
export function observeMethod(owner: unknown, name: string, method: Method, options: ObserveOptions): void {
  const object = fieldsOf(owner);
  const original = object[name];
  if (typeof original !== "function" || OBSERVED in original) return;
  const observed = function (this: unknown, ...args: unknown[]): unknown {
    const spindle = options.spindle ?? defaultClient();
    const { tags, captureInput, captureOutput } = options;
    let begin: RunOptions = {};
    try {
      begin = method.begin(fieldsOf(args[0]));
    } catch {
      // Parameters that cannot be read: the model client will say so itself.
    }
    const run = spindle.start("llm", { ...begin, tags, captureInput, captureOutput });
    let result: unknown;
    try {
      result = run.within(() => original.apply(this, args));
    } catch (error) {
      run.fail(error);
      throw error;
    }
    return follow(run, result, method.shape());
  };
  Object.defineProperty(observed, OBSERVED, { value: true });
  Object.defineProperty(object, name, { value: observed, configurable: true, writable: true, enumerable: false });
}
