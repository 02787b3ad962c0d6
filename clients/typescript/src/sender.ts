/** One request to the server: with a time-out, compressed above a size, tried again where that may help. */

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
  /** Asked before each wait for another try. */
  triesAgain(): boolean;
  /** Told before each further try. */
  onRetry(): void;
}

/** The first wait before another try; each further one is twice as long. */
const BACKOFF_MS = 500;
const BACKOFF_MOST_MS = 30_000;
/** A server may ask for more patience than our own backoff, but not for any. */
const RETRY_AFTER_MOST_MS = 60_000;
/** Answers list at most a hundred reasons; more than this is no answer of Spindle's. */
const ANSWER_BYTES = 256 * 1024;

type Attempt = Outcome | { sent: false; why: string; retryAfterMs: number | undefined };

/** Sends a body. Never rejects. */
export async function send(settings: Settings, body: string, haste: Haste): Promise<Outcome> {
  if (settings.endpoint === undefined) return { sent: false, why: "the url of the server is no http address" };
  const bytes = platform.byteLength(body);
  const plain = { body, headers: settings.headers, bytes };
  // Compressing takes a moment that a page which is left does not have; without it the request starts at once.
  const packed = bytes >= settings.gzipBytes && !haste.isLeaving ? await compressed(plain) : plain;
  for (let tried = 0; ; tried++) {
    const attempt = await post(settings, settings.endpoint, packed, haste.signal);
    if (attempt.sent || !("retryAfterMs" in attempt)) return attempt;
    if (tried >= settings.retries || haste.signal.aborted || !haste.triesAgain()) return attempt;
    await pause(attempt.retryAfterMs ?? backoffMs(tried), haste.signal);
    if (haste.signal.aborted) return attempt;
    haste.onRetry();
  }
}

/** Between half of the wait and all of it, so that many clients do not come back at the same moment. */
function backoffMs(tried: number): number {
  return Math.min(BACKOFF_MS * 2 ** tried, BACKOFF_MOST_MS) * (0.5 + Math.random() / 2);
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    // Not an unreferenced timer's own end alone: a process that has nothing else to do ends here, by way of its last flush.
    const timer = platform.timer(done, ms);
    function done() {
      clearTimeout(timer as number);
      signal.removeEventListener("abort", done);
      resolve();
    }
    signal.addEventListener("abort", done);
  });
}

interface Packed {
  body: string | ArrayBuffer;
  headers: Record<string, string>;
  bytes: number;
}

async function compressed(plain: Packed): Promise<Packed> {
  if (typeof CompressionStream !== "function") return plain;
  try {
    const stream = new Blob([plain.body]).stream().pipeThrough(new CompressionStream("gzip"));
    const body = await new Response(stream).arrayBuffer();
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
    const fetch = settings.fetch ?? globalThis.fetch;
    const request = fetch(endpoint, {
      method: "POST",
      headers: packed.headers,
      body: packed.body,
      signal: abort.signal,
      // A redirected POST becomes a GET, and the key is not for other hosts.
      redirect: "manual",
      keepalive: packed.bytes <= platform.keepaliveBytes,
    });
    const { response, text } = await orAborted(request.then(read), abort.signal);
    if (response.ok) return answered(text);
    const why = response.status === 0 ? "the server redirects" : `the server answered ${response.status}`;
    return isWorthAnotherTry(response.status)
      ? { sent: false, why, retryAfterMs: retryAfterMs(response) }
      : { sent: false, why };
  } catch (error) {
    const why = isLate ? "the server did not answer in time" : `the server was not reached (${codeOf(error)})`;
    return { sent: false, why, retryAfterMs: undefined };
  } finally {
    clearTimeout(timer as number);
    haste.removeEventListener("abort", onHaste);
  }
}

function isWorthAnotherTry(status: number): boolean {
  return status === 408 || status === 429 || status >= 500;
}

/** Seconds or a date. */
function retryAfterMs(response: Response): number | undefined {
  const text = response.headers.get("retry-after");
  if (text === null) return undefined;
  const ms = /^\s*\d+\s*$/.test(text) ? Number(text) * 1000 : Date.parse(text) - Date.now();
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

/** The body up to a bound. It has to be read, or the connection is not used again. */
async function read(response: Response): Promise<{ response: Response; text: string }> {
  const reader = response.body?.getReader();
  if (!reader) return { response, text: "" };
  const decoder = new TextDecoder();
  let text = "";
  for (let bytes = 0; bytes < ANSWER_BYTES; ) {
    const { done, value } = await reader.read();
    if (done) return { response, text: text + decoder.decode() };
    bytes += value.byteLength;
    text += decoder.decode(value, { stream: true });
  }
  await reader.cancel().catch(() => {});
  return { response, text };
}

/** What the server says it took. An answer that is not Spindle's says nothing of it. */
function answered(text: string): Outcome {
  let accepted = 0;
  let rejected = 0;
  let reason: string | undefined;
  try {
    const answer = JSON.parse(text) as { accepted?: unknown; rejected?: unknown; errors?: { code?: unknown }[] };
    if (typeof answer.accepted === "number") accepted = answer.accepted;
    if (typeof answer.rejected === "number") rejected = answer.rejected;
    const code = answer.errors?.[0]?.code;
    if (typeof code === "string") reason = code.slice(0, 64);
  } catch {
    reason = "the answer is not Spindle's";
  }
  return { sent: true, accepted, rejected, reason };
}

/** A short word for what went wrong: messages of `fetch` hold the address, which may hold secrets. */
function codeOf(error: unknown): string {
  const { name, cause } = (error ?? {}) as { name?: unknown; cause?: { code?: unknown } };
  const code = cause?.code ?? name;
  return typeof code === "string" ? code.slice(0, 64) : "unknown";
}
