/** Messages of Anthropic: what was asked, what came back at once or in pieces, and what it cost. */

import type { Usage } from "../event.js";
import type { Run } from "../run.js";
import { BOUNDS } from "../snapshot.js";
import type { Collector } from "../stream.js";
import { countOf, type Fields, fieldsOf, numberOf, pick, textOf, textOrBlocks } from "./fields.js";
import type { Method } from "./observe.js";
import { finished } from "./openai-usage.js";

/** Parameters worth seeing beside the run. Also in the Python client; `clients/fixtures` has what both report. */
const PARAMETERS = [
  "max_tokens",
  "temperature",
  "top_p",
  "top_k",
  "stop_sequences",
  "thinking",
  "tools",
  "tool_choice",
  "service_tier",
  "stream",
] as const;

/** `messages.create`, which `messages.stream` calls too. */
export const messageMethod: Method = {
  begin: (parameters) => ({
    name: "anthropic.messages",
    model: textOf(parameters.model),
    input: inputOf(parameters),
    metadata: pick(parameters, PARAMETERS),
  }),
  shape: () => ({
    finish(run, value) {
      const answer = fieldsOf(value);
      finished(run, answer.stop_reason);
      run.end(outputOf(answer.content), usageOf(answer));
    },
    collector: () => new MessageEvents(),
  }),
};

/** The system prompt is a message like any other. */
function inputOf({ system, messages }: Fields): unknown {
  if (system === undefined || system === null || !Array.isArray(messages)) return messages;
  return [{ role: "system", content: system }, ...messages];
}

function outputOf(content: unknown): unknown {
  return Array.isArray(content) ? { role: "assistant", content: textOrBlocks(content) } : undefined;
}

/** Input tokens of Anthropic are only those that no cache was asked for; the prompt is all of them. */
function usageOf(answer: Fields): Usage {
  const usage = fieldsOf(answer.usage);
  const about: Usage = { model: textOf(answer.model), responseId: textOf(answer.id) };
  const fresh = countOf(usage.input_tokens);
  if (fresh === undefined) return about;
  const read = countOf(usage.cache_read_input_tokens);
  // By lifetime where the provider says it; what it does not divide has the default one.
  const lifetimes = fieldsOf(usage.cache_creation);
  const hour = countOf(lifetimes.ephemeral_1h_input_tokens);
  const divided = (countOf(lifetimes.ephemeral_5m_input_tokens) ?? 0) + (hour ?? 0);
  const created = countOf(usage.cache_creation_input_tokens);
  const written = Math.max(created ?? 0, divided);
  const isWritten = created !== undefined || (usage.cache_creation ?? null) !== null;
  const promptTokens = fresh + written + (read ?? 0);
  const completionTokens = countOf(usage.output_tokens);
  return {
    ...about,
    promptTokens,
    completionTokens,
    totalTokens: promptTokens + (completionTokens ?? 0),
    cachedTokens: read,
    cacheWriteTokens: isWritten ? written - (hour ?? 0) : undefined,
    cacheWrite1hTokens: hour,
    reasoningTokens: countOf(fieldsOf(usage.output_tokens_details).thinking_tokens),
    requests: countOf(fieldsOf(usage.server_tool_use).web_search_requests),
    serviceTier: usage.speed === "fast" ? "fast" : textOf(usage.service_tier),
  };
}

/** Events of a streamed message, put together again. */
class MessageEvents implements Collector {
  private answer: Fields = {};
  private usage: Fields = {};
  private stopReason: unknown;
  private readonly blocks = new Map<number, Fields>();
  private chars = 0;

  add(piece: unknown): boolean {
    const event = fieldsOf(piece);
    if (event.type === "message_start") {
      this.answer = pick(fieldsOf(event.message), ["model", "id"]) ?? {};
      this.addUsage(fieldsOf(event.message).usage);
    } else if (event.type === "content_block_start") {
      const block = { ...fieldsOf(event.content_block) };
      if (this.blocks.size < BOUNDS.items) this.blocks.set(numberOf(event.index) ?? 0, block);
    } else if (event.type === "content_block_delta") {
      const block = this.blocks.get(numberOf(event.index) ?? 0);
      if (block) this.addDelta(block, fieldsOf(event.delta));
    } else if (event.type === "message_delta") {
      this.stopReason = fieldsOf(event.delta).stop_reason ?? this.stopReason;
      this.addUsage(event.usage);
    }
    return event.type === "content_block_delta";
  }

  /** Sums so far, at the beginning and again at the end; some come only once. */
  private addUsage(usage: unknown): void {
    for (const [name, value] of Object.entries(fieldsOf(usage))) {
      if (value !== undefined && value !== null) this.usage[name] = value;
    }
  }

  private addDelta(block: Fields, delta: Fields): void {
    const [field, text] =
      delta.type === "text_delta"
        ? ["text", delta.text]
        : delta.type === "thinking_delta"
          ? ["thinking", delta.thinking]
          : delta.type === "input_json_delta"
            ? ["partial_json", delta.partial_json]
            : ["", undefined];
    if (typeof text !== "string" || this.chars > BOUNDS.chars) return;
    this.chars += text.length;
    block[field] = (textOf(block[field]) ?? "") + text;
  }

  finish(run: Run, failure?: { error: unknown }): void {
    const content = [...this.blocks.values()].map(whole);
    finished(run, this.stopReason);
    const output = content.length === 0 ? undefined : outputOf(content);
    const usage = usageOf({ ...this.answer, usage: this.usage });
    if (failure) run.fail(failure.error, output, usage);
    else run.end(output, usage);
  }
}

/** The input of a tool comes as pieces of JSON. */
function whole({ partial_json: json, ...block }: Fields): Fields {
  if (typeof json !== "string" || json === "") return block;
  try {
    return { ...block, input: JSON.parse(json) };
  } catch {
    return { ...block, input: json };
  }
}
