/** One request to the server: with a time-out, compressed above a size, tried again where that may help. */

import { postByFetch } from "./platform/fetch-post.js";
import { platform } from "./platform.js";
import type { Settings } from "./settings.js";

/** What became of a batch. */
export type Outcome =
  | { sent: true; accepted: number; rejected: number; reason: string | undefined }
  | { sent: false; why: string };

/** How the outside may hurry a request. */
export interface Haste {
  /** Ends waits and requests at once. */
  signal: AbortSignal;
  /** The page is being left. */
  isLeaving: boolean;
  /** Holds an entry during each wait for another try; to call it ends the wait, and the try follows at once. */
  waits: Set<() => void>;
  /** Whether a caller waits for the end. What is tried before that is tried once more, at once; later tries are the last. */
  isEnding(): boolean;
  /** Told before each further try. */
  onRetry(): void;
}

/** The first wait before another try; each further one is twice as long. */
const BACKOFF_MS = 500;
const BACKOFF_MOST_MS = 30_000;
/** A server may ask for more patience than our own backoff, but not for any. */
const RETRY_AFTER_MOST_MS = 60_000;

type Attempt = Outcome | { sent: false; why: string; retryAfterMs: number | undefined };

/** Sends a body. Never rejects. */
export async function send(settings: Settings, body: string, haste: Haste): Promise<Outcome> {
  if (settings.endpoint === undefined) return { sent: false, why: "the url of the server is no http address" };
  const bytes = platform.byteLength(body);
  const plain = { body, headers: settings.headers, bytes };
  // Compressing takes a moment that a page which is left does not have; without it the request starts at once.
  const packed = bytes >= settings.gzipBytes && !haste.isLeaving ? await compressed(plain) : plain;
  for (let tried = 0; ; tried++) {
    const isLast = haste.isEnding();
    const attempt = await post(settings, settings.endpoint, packed, haste.signal);
    if (attempt.sent || !("retryAfterMs" in attempt)) return attempt;
    if (tried >= settings.retries || haste.signal.aborted || isLast) return attempt;
    if (!haste.isEnding()) await pause(attempt.retryAfterMs ?? backoffMs(tried), haste);
    if (haste.signal.aborted) return attempt;
    haste.onRetry();
  }
}

/** Between half of the wait and all of it, so that many clients do not come back at the same moment. */
function backoffMs(tried: number): number {
  return Math.min(BACKOFF_MS * 2 ** tried, BACKOFF_MOST_MS) * (0.5 + Math.random() / 2);
}

function pause(ms: number, { signal, waits }: Haste): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    // Not an unreferenced timer's own end alone: a process that has nothing else to do ends here, by way of its last flush.
    const timer = platform.timer(done, ms);
    function done() {
      clearTimeout(timer as number);
      signal.removeEventListener("abort", done);
      waits.delete(done);
      resolve();
    }
    waits.add(done);
    signal.addEventListener("abort", done);
  });
}

interface Packed {
  body: string | Uint8Array;
  headers: Record<string, string>;
  bytes: number;
}

async function compressed(plain: Packed & { body: string }): Promise<Packed> {
  try {
    const body = await platform.gzip(plain.body);
    if (!body) return plain;
    return { body, headers: { ...plain.headers, "Content-Encoding": "gzip" }, bytes: body.byteLength };
  } catch {
    return plain;
  }
}

async function post(settings: Settings, endpoint: string, packed: Packed, haste: AbortSignal): Promise<Attempt> {
  const abort = new AbortController();
  let isLate = false;
  const timer = platform.timer(() => {
    isLate = true;
    abort.abort();
  }, settings.requestTimeoutMs);
  const onHaste = () => abort.abort();
  haste.addEventListener("abort", onHaste);
  if (haste.aborted) abort.abort();
  try {
    const { headers, body, bytes } = packed;
    const keepalive = bytes <= platform.keepaliveBytes;
    const request = { endpoint, headers, body, keepalive, signal: abort.signal };
    const work = settings.fetch ? postByFetch(settings.fetch, request) : platform.post(request);
    const { status, retryAfter, text } = await orAborted(work, abort.signal);
    if (status >= 200 && status < 300) return answered(text);
    const why = status === 0 ? "the server redirects" : `the server answered ${status}${reasonOf(text)}`;
    return isWorthAnotherTry(status) ? { sent: false, why, retryAfterMs: msOf(retryAfter) } : { sent: false, why };
  } catch (error) {
    const why = isLate ? "the server did not answer in time" : `the server was not reached (${codeOf(error)})`;
    return { sent: false, why, retryAfterMs: undefined };
  } finally {
    clearTimeout(timer as number);
    haste.removeEventListener("abort", onHaste);
  }
}

/** What the server says is wrong, in its own words: with them a key that is refused can be mended. */
function reasonOf(text: string): string {
  try {
    const { error, message } = JSON.parse(text) as Record<string, unknown>;
    if (typeof error === "string" && typeof message === "string") {
      return ` (${error.slice(0, 64)}: ${message.slice(0, 256)})`;
    }
  } catch {
    // No JSON, or nothing that has fields.
  }
  return "";
}

function isWorthAnotherTry(status: number): boolean {
  return status === 408 || status === 429 || status >= 500;
}

/** Seconds or a date. */
function msOf(retryAfter: string | null): number | undefined {
  if (retryAfter === null) return undefined;
  const ms = /^\s*\d+\s*$/.test(retryAfter) ? Number(retryAfter) * 1000 : Date.parse(retryAfter) - Date.now();
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 0), RETRY_AFTER_MOST_MS);
}

/** What comes first: a `fetch` that was replaced may not know of signals. */
function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(new DOMException("aborted", "AbortError"));
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    work.then(resolve, reject);
  });
}

/** What the server says it took. An answer of another server, a proxy or a wrong address, means that nothing was accepted. */
function answered(text: string): Outcome {
  try {
    const { accepted, rejected, errors } = JSON.parse(text) as Record<string, unknown>;
    if (typeof accepted === "number" && typeof rejected === "number") {
      const { code, message } = (errors as Record<string, unknown>[] | undefined)?.[0] ?? {};
      const said = [code, message].filter((part) => typeof part === "string" && part !== "") as string[];
      const reason = said.map((part) => part.slice(0, 256)).join(": ");
      return { sent: true, accepted, rejected, reason: reason || undefined };
    }
  } catch {
    // No JSON, or nothing that has fields.
  }
  return { sent: false, why: "the answer is not Spindle's" };
}

/** A short word for what went wrong: messages hold the address. */
function codeOf(error: unknown): string {
  const { name, cause, code: own } = (error ?? {}) as { name?: unknown; cause?: { code?: unknown }; code?: unknown };
  const code = cause?.code ?? (typeof own === "string" ? own : name);
  return typeof code === "string" ? code.slice(0, 64) : "unknown";
}
