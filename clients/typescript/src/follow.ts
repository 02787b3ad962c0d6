/** Following a result until it is there: at once, by a promise or by a stream. */

import type { Run } from "./run.js";
import { type Collector, followStream, isStream, isThenable } from "./stream.js";

/** How the end of a run is derived from a result. Its methods may throw; the run then ends without what they would say. */
export interface Shape {
  /** Ends the run with a value. */
  finish(run: Run, value: unknown): void;
  /** Gathers the pieces of a stream. */
  collector(run: Run): Collector;
}

/** Answers what the application is to get in place of `result`, which is nearly always `result` itself. */
export function follow(run: Run, result: unknown, shape: Shape): unknown {
  try {
    if (isThenable(result)) return followPromise(run, result, shape);
    if (isStream(result)) return followStream(run, result, shape.collector(run));
  } catch {
    // An object that does not let itself be followed is handed on, and its run ends here.
  }
  finish(run, result, shape);
  return result;
}

function finish(run: Run, value: unknown, shape: Shape): void {
  try {
    shape.finish(run, value);
  } catch {
    run.end();
  }
}

/** The methods of promises of model clients that lead to the answer without `then`. */
interface ApiPromise extends PromiseLike<unknown> {
  parse?: () => Promise<unknown>;
  asResponse?: () => Promise<unknown>;
  _thenUnwrap?: (transform: unknown) => unknown;
}

function followPromise(run: Run, promise: PromiseLike<unknown>, shape: Shape): unknown {
  const onValue = (value: unknown) => follow(run, value, shape);
  const onError = (error: unknown): never => {
    run.fail(error);
    throw error;
  };
  // What the application does not handle must stay unhandled: so it gets the follower, never the original beside one.
  if ((promise as object).constructor === Promise) return withOwn(promise.then(onValue, onError), promise);
  const api = promise as ApiPromise;
  if (typeof api.parse === "function" && typeof api.asResponse === "function") return followApi(run, api, shape);
  // Other thenables may start their work only on demand, or have methods of their own: they are observed on demand.
  const original = promise.then;
  let followed: Promise<unknown> | undefined;
  own(promise, "then", (...handlers: Parameters<Promise<unknown>["then"]>) => {
    // What `then` of such an object answers is not always a promise.
    followed ??= new Promise((resolve, reject) => original.call(promise, resolve, reject)).then(onValue, onError);
    return followed.then(...handlers);
  });
  return promise;
}

/**
 * Gives `follower` what was put on `promise` itself, such as a method to cancel it. `await` asks a plain promise
 * without calling its `then`, so that the follower has to take its place.
 */
function withOwn(follower: PromiseLike<unknown>, promise: object): PromiseLike<unknown> {
  for (const key of Reflect.ownKeys(promise)) {
    // Node puts symbols of its own on promises; symbols of the language have equal names.
    if (typeof key === "symbol" && !key.description?.startsWith("Symbol.")) continue;
    if (key === "then") continue;
    const property = Object.getOwnPropertyDescriptor(promise, key);
    if (property) Reflect.defineProperty(follower, key, property);
  }
  return follower;
}

/** Model clients parse an answer only when it is asked for, and once. */
function followApi(run: Run, api: ApiPromise, shape: Shape): ApiPromise {
  const { parse, asResponse, _thenUnwrap: unwrap } = api;
  let followed: Promise<unknown> | undefined;
  own(api, "parse", () => {
    followed ??= (parse as () => Promise<unknown>).call(api).then(
      (value) => follow(run, value, shape),
      (error) => {
        run.fail(error);
        throw error;
      },
    );
    return followed;
  });
  own(api, "asResponse", async () => {
    try {
      const response = await (asResponse as () => Promise<unknown>).call(api);
      // Who asks for nothing but the response reads the answer unseen.
      if (!followed) run.end("[a response that the application reads itself]");
      return response;
    } catch (error) {
      run.fail(error);
      throw error;
    }
  });
  if (typeof unwrap === "function") {
    own(api, "_thenUnwrap", (transform: unknown) => {
      const next = unwrap.call(api, transform) as ApiPromise;
      return followApi(run, next, shape);
    });
  }
  return api;
}

function own(object: object, name: string, method: unknown): void {
  Object.defineProperty(object, name, { value: method, configurable: true, writable: true, enumerable: false });
}
