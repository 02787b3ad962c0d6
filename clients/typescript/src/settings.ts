/** The settings of a client: what may be given, what the environment says, and the bounds of each. */

import { platform } from "./platform.js";

/** What a client can be told. Everything may be left out. */
export interface Options {
  /** Address of the server; `SPINDLE_URL`, else `http://127.0.0.1:7070`. */
  url?: string | undefined;
  /** API key; `SPINDLE_API_KEY`. Without one no `Authorization` is sent, which only apps without a key allow. */
  apiKey?: string | undefined;
  /** App that the events belong to; `SPINDLE_APP_ID`, else the app of the key's project. */
  appId?: string | undefined;
  /** Time between two flushes, milliseconds. Default 500. A full batch does not wait for it. */
  flushIntervalMs?: number | undefined;
  /** Most events that wait. Default 10,000; what comes on top is dropped and counted as `queue_full`. */
  queueEvents?: number | undefined;
  /** Most bytes that wait, estimated. Default 16 MiB. */
  queueBytes?: number | undefined;
  /** Most events of one request. Default 500. */
  batchEvents?: number | undefined;
  /** Most bytes of JSON of one request and of one event. Default 1 MiB, which is also the server's limit for one event. */
  batchBytes?: number | undefined;
  /** Bodies from this size on are compressed, bytes. Default 8 KiB. `Infinity` never compresses. */
  gzipBytes?: number | undefined;
  /** Time for one request, milliseconds. Default 5,000. */
  requestTimeoutMs?: number | undefined;
  /** Time for the last flush when the process ends, milliseconds. Default 2,000. */
  exitTimeoutMs?: number | undefined;
  /** How often a failed request is tried again. Default 0: the batch is dropped and counted as `failed`. At most 20. */
  retries?: number | undefined;
  /** Flush at the end of the process, at SIGTERM and SIGINT, and when a page is left. Default true. */
  flushAtExit?: boolean | undefined;
  /** Whether inputs are reported. Default true. */
  captureInput?: boolean | undefined;
  /** Whether outputs are reported. Default true. */
  captureOutput?: boolean | undefined;
  /** Where warnings go, at most one a minute. Default: the console. */
  warn?: ((message: string) => void) | undefined;
  /** Sends in place of the library's own way: Node's `http`, whose sockets keep no process alive, or the global `fetch`. */
  fetch?: typeof fetch | undefined;
}

/** Settings with nothing left open. */
export interface Settings {
  /** The whole address of the report, or undefined where the given one is no http address. */
  endpoint: string | undefined;
  headers: Record<string, string>;
  appId: string | undefined;
  flushIntervalMs: number;
  queueEvents: number;
  queueBytes: number;
  batchEvents: number;
  batchBytes: number;
  gzipBytes: number;
  requestTimeoutMs: number;
  exitTimeoutMs: number;
  retries: number;
  flushAtExit: boolean;
  captureInput: boolean;
  captureOutput: boolean;
  warn: (message: string) => void;
  fetch: typeof fetch | undefined;
}

const MIB = 1024 * 1024;

/** Reads options and environment. Never throws: a number out of its bounds becomes the nearest one inside. */
export function settingsOf(options: Options = {}): Settings {
  const address = addressOf(options.url ?? platform.environment("SPINDLE_URL") ?? "http://127.0.0.1:7070");
  const key = textOf(options.apiKey ?? platform.environment("SPINDLE_API_KEY")) ?? address?.key;
  const headers: Record<string, string> = { "Content-Type": "application/json" };
  if (key !== undefined) headers.Authorization = `Bearer ${key}`;
  const batchBytes = within(options.batchBytes, MIB, 1024, 10 * MIB);
  return {
    endpoint: address?.endpoint,
    headers,
    appId: textOf(options.appId ?? platform.environment("SPINDLE_APP_ID")),
    flushIntervalMs: within(options.flushIntervalMs, 500, 1, 3_600_000),
    queueEvents: within(options.queueEvents, 10_000, 1, 1_000_000),
    queueBytes: within(options.queueBytes, 16 * MIB, 1024, 1024 * MIB),
    batchEvents: within(options.batchEvents, 500, 1, 10_000),
    batchBytes,
    gzipBytes: options.gzipBytes === Infinity ? Infinity : within(options.gzipBytes, 8 * 1024, 0, 10 * MIB),
    requestTimeoutMs: within(options.requestTimeoutMs, 5_000, 1, 600_000),
    exitTimeoutMs: within(options.exitTimeoutMs, 2_000, 0, 60_000),
    retries: within(options.retries, 0, 0, 20),
    flushAtExit: options.flushAtExit !== false,
    captureInput: options.captureInput !== false,
    captureOutput: options.captureOutput !== false,
    // biome-ignore lint/suspicious/noConsole: the one place where the library speaks, and an application can redirect it
    warn: typeof options.warn === "function" ? options.warn : (message) => console.warn(message),
    fetch: typeof options.fetch === "function" ? options.fetch : undefined,
  };
}

function within(value: unknown, otherwise: number, least: number, most: number): number {
  if (typeof value !== "number" || Number.isNaN(value)) return otherwise;
  return Math.min(Math.max(Math.round(value), least), most);
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value.trim() !== "" ? value.trim() : undefined;
}

/** The address to post to; a key in the address is taken out, since `fetch` refuses such addresses. */
function addressOf(url: unknown): { endpoint: string; key: string | undefined } | undefined {
  try {
    const address = new URL(String(url).trim());
    if (address.protocol !== "http:" && address.protocol !== "https:") return undefined;
    const key = address.username === "" ? undefined : decodeURIComponent(address.username);
    const path = address.pathname.replace(/\/+$/, "");
    return { endpoint: `${address.protocol}//${address.host}${path}/api/report`, key };
  } catch {
    return undefined;
  }
}
