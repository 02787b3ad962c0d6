/** Node: the current run follows `await`, timers and callbacks, and the end of the process is noticed. */

import { AsyncLocalStorage } from "node:async_hooks";
import { randomUUID } from "node:crypto";
import { promisify } from "node:util";
import { constants, gzip } from "node:zlib";
import { postByHttp } from "./http-post.js";
import { watchEnd } from "./process-end.js";
import type { ContextStore, Platform } from "./surface.js";

export const platform: Platform = {
  environment: (name) => process.env[name],
  contextStore: <T>(): ContextStore<T> => {
    const storage = new AsyncLocalStorage<T>();
    return { run: (value, fn) => storage.run(value, fn), current: () => storage.getStore() };
  },
  randomId: () => randomUUID(),
  byteLength: (text) => Buffer.byteLength(text),
  post: postByHttp,
  // Events repeat themselves so much that the quickest way makes them small.
  gzip: (text) => promisify(gzip)(text, { level: constants.Z_BEST_SPEED }),
  timer: (fn, ms) => setTimeout(fn, ms).unref(),
  staysOpen: false,
  keepaliveBytes: 0,
  watchEnd,
};
