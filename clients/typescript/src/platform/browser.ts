/**
 * Browsers, Workers and whatever else has `fetch` but is not Node.
 *
 * The current run follows `await` where the runtime offers `AsyncLocalStorage`; elsewhere it is known until the first
 * `await`, and never the wrong one.
 */

import { postByFetch } from "./fetch-post.js";
import type { ContextStore, Ending, Platform } from "./surface.js";

/** Browsers allow 64 KiB for all requests that outlive their page; the rest is for headers and for others. */
const KEEPALIVE_BYTES = 60 * 1024;

/** A value that is current while a function runs and no longer, so that it is never the wrong one. */
class SynchronousStore<T> implements ContextStore<T> {
  private value: T | undefined;

  run<R>(value: T, fn: () => R): R {
    const before = this.value;
    this.value = value;
    try {
      return fn();
    } finally {
      this.value = before;
    }
  }

  current(): T | undefined {
    return this.value;
  }
}

type Storage = new () => { run<R>(value: unknown, fn: () => R): R; getStore(): unknown };

/**
 * The `AsyncLocalStorage` of runtimes at the edge: a global of theirs, or a module that they lend without an import, as
 * Cloudflare's does with the flag `nodejs_compat`. Pages have none, also where a bundler gave them a `process`.
 */
function storageOfRuntime(): Storage | undefined {
  const runtime = globalThis as {
    AsyncLocalStorage?: Storage;
    process?: { getBuiltinModule?: (name: string) => { AsyncLocalStorage?: Storage } | undefined };
  };
  if (isPage()) return undefined;
  if (typeof runtime.AsyncLocalStorage === "function") return runtime.AsyncLocalStorage;
  try {
    return runtime.process?.getBuiltinModule?.("node:async_hooks")?.AsyncLocalStorage;
  } catch {
    return undefined;
  }
}

function contextStore<T>(): ContextStore<T> {
  const Storage = storageOfRuntime();
  if (Storage === undefined) return new SynchronousStore();
  const storage = new Storage();
  return { run: (value, fn) => storage.run(value, fn), current: () => storage.getStore() as T | undefined };
}

function isPage(): boolean {
  return (globalThis as { document?: unknown }).document !== undefined;
}

/** Outside of secure pages there is no `randomUUID`. */
function randomId(): string {
  const crypto = globalThis.crypto;
  if (typeof crypto?.randomUUID === "function") return crypto.randomUUID();
  const bytes = new Uint8Array(16);
  if (crypto) crypto.getRandomValues(bytes);
  else for (let at = 0; at < bytes.length; at++) bytes[at] = Math.random() * 256;
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/** A page that is hidden may never be shown again, and on phones no other event follows. */
function watchEnd(ending: Ending): () => void {
  const page = globalThis as Partial<Window & typeof globalThis>;
  if (typeof page.addEventListener !== "function" || !isPage()) return () => {};
  const onHide = () => ending.flushBeforeHidden();
  const onVisibility = () => {
    if (page.document?.visibilityState === "hidden") onHide();
  };
  page.addEventListener("pagehide", onHide);
  page.document?.addEventListener("visibilitychange", onVisibility);
  return () => {
    page.removeEventListener?.("pagehide", onHide);
    page.document?.removeEventListener("visibilitychange", onVisibility);
  };
}

async function gzip(text: string): Promise<Uint8Array | undefined> {
  if (typeof CompressionStream !== "function") return undefined;
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const encoder = new TextEncoder();

export const platform: Platform = {
  environment: (name) => {
    const environment = (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env;
    return environment?.[name];
  },
  contextStore,
  randomId,
  byteLength: (text) => encoder.encode(text).length,
  post: (post) => postByFetch(globalThis.fetch, post),
  gzip,
  timer: (fn, ms) => {
    const timer: unknown = setTimeout(fn, ms);
    // Runtimes that are neither a browser nor Node may have it.
    if (typeof timer === "object") (timer as { unref?: () => void }).unref?.();
    return timer;
  },
  staysOpen: true,
  get keepaliveBytes() {
    return isPage() ? KEEPALIVE_BYTES : 0;
  },
  watchEnd,
};
