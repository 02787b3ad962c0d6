/** The events as they travel: the shape of the server's `POST /api/report`, and the rules for its fields. */

import { sha256 } from "./digest.js";
import { cutText, type Json } from "./snapshot.js";

/** What a run can be. */
export type RunType = "agent" | "chain" | "tool" | "llm";

/**
 * What a model call used. Counts are whole numbers from 0.
 *
 * `promptTokens` and `completionTokens` include everything; the other tokens are parts of them, and no token is in two
 * parts.
 */
export interface Usage {
  /** The model that answered, where it differs from the one that was asked. */
  model?: string | undefined;
  /** The identifier that the provider gave to the response: runs of one response are counted once. */
  responseId?: string | undefined;
  /** All tokens of the prompt, those from a cache among them. */
  promptTokens?: number | undefined;
  /** All tokens of the completion, reasoning tokens included. */
  completionTokens?: number | undefined;
  /** Only where the maker gives nothing finer. */
  totalTokens?: number | undefined;
  /** The part of `promptTokens` that was read from a cache. */
  cachedTokens?: number | undefined;
  /** The part of `promptTokens` that was written to a cache of the default lifetime. */
  cacheWriteTokens?: number | undefined;
  /** The part of `promptTokens` that was written to a cache of one hour. */
  cacheWrite1hTokens?: number | undefined;
  /** The part of `promptTokens` that was audio. */
  inputAudioTokens?: number | undefined;
  /** The part of `promptTokens` that was images. */
  inputImageTokens?: number | undefined;
  /** The part of `completionTokens` that was reasoning. */
  reasoningTokens?: number | undefined;
  /** The part of `completionTokens` that was audio. */
  outputAudioTokens?: number | undefined;
  /** Requests that are billed beside tokens, such as searches. */
  requests?: number | undefined;
  /** `batch`, `flex`, `priority` and others; the standard tier needs no name. */
  serviceTier?: string | undefined;
  /** What the provider charged, USD. */
  cost?: number | undefined;
  /** What the call costs by a price list of the application, USD; it counts only where the server has no price. */
  estimatedCost?: number | undefined;
  /** Milliseconds until the first token; `Run.firstToken` measures it. */
  ttftMs?: number | undefined;
}

/** An error as the server shows it. */
export interface ReportedError {
  name: string;
  message: string;
  stack?: string | undefined;
}

/** One event. Fields that are `undefined` are not sent. */
export interface Event {
  name: string;
  event_id: string;
  run_id: string;
  timestamp: string;
  app_id?: string | undefined;
  parent_run_id?: string | undefined;
  type?: RunType | undefined;
  metadata?: Json;
  input?: Json;
  output?: Json;
  model?: string | undefined;
  prompt_tokens?: number | undefined;
  completion_tokens?: number | undefined;
  total_tokens?: number | undefined;
  cached_tokens?: number | undefined;
  cache_write_tokens?: number | undefined;
  cache_write_1h_tokens?: number | undefined;
  input_audio_tokens?: number | undefined;
  input_image_tokens?: number | undefined;
  reasoning_tokens?: number | undefined;
  output_audio_tokens?: number | undefined;
  requests?: number | undefined;
  service_tier?: string | undefined;
  cost?: number | undefined;
  estimated_cost?: number | undefined;
  ttft_ms?: number | undefined;
  response_id?: string | undefined;
  error?: ReportedError | undefined;
  tags?: string[] | undefined;
  user_email?: string | undefined;
  agent?: string | undefined;
  thread_id?: string | undefined;
  role?: string | undefined;
  content?: string | undefined;
  rating?: string | undefined;
  comment?: string | undefined;
}

/** The server refuses a longer name; it counts bytes, and the phase comes on top. */
const NAME_BYTES = 500;
/** The server refuses a longer id. */
const ID_BYTES = 256;
/** The server refuses more tags on one event. */
const TAGS = 64;
/** Enough for any message and for a stack of a few dozen frames. */
const ERROR_MESSAGE_CHARS = 8 * 1024;
const ERROR_STACK_CHARS = 16 * 1024;

/** A name the server takes: a text that is not empty, at most 500 bytes. */
export function nameOf(name: unknown, otherwise: string): string {
  const text = typeof name === "string" ? name.trim() : "";
  if (text === "") return otherwise;
  // A character is at most three bytes (four take two of them).
  if (text.length * 3 <= NAME_BYTES) return text;
  const bytes = new TextEncoder().encode(text);
  if (bytes.length <= NAME_BYTES) return text;
  return new TextDecoder().decode(bytes.subarray(0, NAME_BYTES)).replace(/\uFFFD+$/, "");
}

/** A text or a number as an id or a name; `undefined` for everything else, which the server would refuse. */
export function wordOf(value: unknown): string | undefined {
  const text = typeof value === "number" ? String(value) : value;
  return typeof text === "string" && text !== "" ? text : undefined;
}

/**
 * An id the server takes, of a run, a conversation or an app: a text or a number.
 *
 * One that is too long ends with its hash, so that different ones stay different; the Python library does it alike.
 */
export function idOf(value: unknown): string | undefined {
  const text = wordOf(value);
  // A character is at most three bytes (four take two of them).
  if (text === undefined || text.length * 3 <= ID_BYTES) return text;
  const bytes = new TextEncoder().encode(text);
  if (bytes.length <= ID_BYTES) return text;
  let end = ID_BYTES - 40;
  // Not within a character, whose further bytes begin with the bits 10.
  while (((bytes[end] as number) & 0xc0) === 0x80) end--;
  return `${new TextDecoder().decode(bytes.subarray(0, end))}…${sha256(bytes).slice(0, 32)}`;
}

/** A user's name, cut to what the server takes. */
export function userOf(value: unknown): string | undefined {
  return nameOf(wordOf(value), "") || undefined;
}

/** Tags the server takes, each once; `undefined` where there are none. */
export function tagsOf(...groups: (readonly string[] | undefined)[]): string[] | undefined {
  let tags: Set<string> | undefined;
  for (const group of groups) {
    if (!Array.isArray(group)) continue;
    for (const tag of group) {
      const name = nameOf(tag, "");
      if (name === "") continue;
      tags ??= new Set();
      if (tags.size < TAGS) tags.add(name);
    }
  }
  return tags && [...tags];
}

/** Anything that was thrown, as the server shows it. Never throws. */
export function errorOf(thrown: unknown): ReportedError {
  try {
    if (typeof thrown === "object" && thrown !== null && "message" in thrown) {
      const error = thrown as { name?: unknown; message?: unknown; stack?: unknown };
      const stack = typeof error.stack === "string" ? cutText(error.stack, ERROR_STACK_CHARS) : undefined;
      const message = cutText(String(error.message), ERROR_MESSAGE_CHARS);
      return { name: nameOf(error.name, "Error"), message, stack };
    }
    return { name: "Error", message: cutText(String(thrown), ERROR_MESSAGE_CHARS) };
  } catch {
    return { name: "Error", message: "an error that cannot be read" };
  }
}

/** What providers call the tier that has no price of its own. */
const STANDARD_TIERS = new Set(["auto", "default", "standard", "standard_only"]);

/** The fields of a usage, without what is no count. */
export function usageFields(usage: Usage): Partial<Event> {
  return {
    model: nameOf(usage.model, "") || undefined,
    response_id: nameOf(usage.responseId, "") || undefined,
    prompt_tokens: countOf(usage.promptTokens),
    completion_tokens: countOf(usage.completionTokens),
    total_tokens: countOf(usage.totalTokens),
    cached_tokens: countOf(usage.cachedTokens),
    cache_write_tokens: countOf(usage.cacheWriteTokens),
    cache_write_1h_tokens: countOf(usage.cacheWrite1hTokens),
    input_audio_tokens: countOf(usage.inputAudioTokens),
    input_image_tokens: countOf(usage.inputImageTokens),
    reasoning_tokens: countOf(usage.reasoningTokens),
    output_audio_tokens: countOf(usage.outputAudioTokens),
    requests: countOf(usage.requests),
    service_tier: tierOf(usage.serviceTier),
    cost: amountOf(usage.cost),
    estimated_cost: amountOf(usage.estimatedCost),
    ttft_ms: countOf(usage.ttftMs),
  };
}

function tierOf(tier: unknown): string | undefined {
  const name = nameOf(tier, "");
  return name === "" || STANDARD_TIERS.has(name.toLowerCase()) ? undefined : name;
}

/** An amount of money from 0, or nothing. */
function amountOf(value: unknown): number | undefined {
  return typeof value === "number" && value >= 0 && Number.isFinite(value) ? value : undefined;
}

/** A whole number from 0, or nothing. */
export function countOf(value: unknown): number | undefined {
  return typeof value === "number" && value >= 0 && Number.isFinite(value) ? Math.round(value) : undefined;
}

let lastMs = Number.NaN;
let lastText = "";

/** Unix milliseconds as ISO 8601 UTC. Many events share a millisecond, so the last one is remembered. */
export function isoTime(ms: number): string {
  if (ms !== lastMs) {
    lastText = new Date(ms).toISOString();
    lastMs = ms;
  }
  return lastText;
}
