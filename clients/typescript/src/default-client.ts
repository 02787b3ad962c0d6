/** The client of an application that makes none itself, and the same words as functions of the package. */

import { Spindle } from "./client.js";
import { shared } from "./context.js";
import type { Options } from "./settings.js";
import { type AnyFunction, type WrapperOptions, wrap } from "./wrapper.js";

const place = shared<{ client: Spindle | undefined }>("default", () => ({ client: undefined }));

/** The default client, made from the environment at its first use. */
export function defaultClient(): Spindle {
  place.client ??= new Spindle();
  return place.client;
}

/** Replaces the default client by one with these options. The queue of the former one is sent. */
export function configure(options: Options = {}): Spindle {
  void place.client?.close();
  place.client = new Spindle(options);
  return place.client;
}

// Which client is the default one is looked up at each call: functions are wrapped while modules load, before `configure`.

/** See `Spindle.agent`. */
export function agent<F extends AnyFunction>(name: string, fn: F, options?: WrapperOptions<F>): F {
  return wrap((run) => defaultClient().start("agent", run), name, fn, options);
}

/** See `Spindle.chain`. */
export function chain<F extends AnyFunction>(name: string, fn: F, options?: WrapperOptions<F>): F {
  return wrap((run) => defaultClient().start("chain", run), name, fn, options);
}

/** See `Spindle.tool`. */
export function tool<F extends AnyFunction>(name: string, fn: F, options?: WrapperOptions<F>): F {
  return wrap((run) => defaultClient().start("tool", run), name, fn, options);
}

/** See `Spindle.llm`. */
export function llm<F extends AnyFunction>(name: string, fn: F, options?: WrapperOptions<F>): F {
  return wrap((run) => defaultClient().start("llm", run), name, fn, options);
}

/** See `Spindle.start`. */
export const start: Spindle["start"] = (...args) => defaultClient().start(...args);
/** See `Spindle.chat`. */
export const chat: Spindle["chat"] = (...args) => defaultClient().chat(...args);
/** See `Spindle.feedback`. */
export const feedback: Spindle["feedback"] = (...args) => defaultClient().feedback(...args);
/** See `Spindle.saved`. */
export const saved: Spindle["saved"] = (...args) => defaultClient().saved(...args);
/** See `Spindle.unsaved`. */
export const unsaved: Spindle["unsaved"] = (...args) => defaultClient().unsaved(...args);
/** See `Spindle.currentRun`. */
export const currentRun: Spindle["currentRun"] = () => defaultClient().currentRun();
/** See `Spindle.withTags`. */
export const withTags: Spindle["withTags"] = (...args) => defaultClient().withTags(...args);
/** See `Spindle.withUser`. */
export const withUser: Spindle["withUser"] = (...args) => defaultClient().withUser(...args);
/** See `Spindle.withThread`. */
export const withThread: Spindle["withThread"] = (...args) => defaultClient().withThread(...args);
/** See `Spindle.stats`. */
export const stats: Spindle["stats"] = () => defaultClient().stats();
/** See `Spindle.flush`. */
export const flush: Spindle["flush"] = (...args) => defaultClient().flush(...args);
/** See `Spindle.flushAfterRuns`. */
export const flushAfterRuns: Spindle["flushAfterRuns"] = (...args) => defaultClient().flushAfterRuns(...args);
/** See `Spindle.close`. */
export const close: Spindle["close"] = (...args) => defaultClient().close(...args);
