/** Messages of Anthropic: what was asked, what came back at once or in pieces, and what it cost. */

import type { Usage } from "../event.js";
import type { Run } from "../run.js";
import { BOUNDS } from "../snapshot.js";
import type { Collector } from "../stream.js";
import { type Fields, fieldsOf, numberOf, pick, sumOf, textOf } from "./fields.js";
import type { Method } from "./observe.js";

/** Parameters worth seeing beside the run. */
const PARAMETERS = [
  "max_tokens",
  "temperature",
  "top_p",
  "top_k",
  "stop_sequences",
  "tool_choice",
  "thinking",
  "service_tier",
] as const;

/** `messages.create`, which `messages.stream` calls too. */
export const messageMethod: Method = {
  begin: (parameters) => ({
    name: "anthropic.messages",
    model: textOf(parameters.model),
    input: pick(parameters, ["system", "messages", "tools"]),
    metadata: pick(parameters, PARAMETERS),
  }),
  shape: () => ({
    finish(run, value) {
      const answer = fieldsOf(value);
      run.end(pick(answer, ["role", "content", "stop_reason"]), usageOf(textOf(answer.model), fieldsOf(answer.usage)));
    },
    collector: () => new MessageEvents(),
  }),
};

/** Input tokens of Anthropic are only those that no cache was asked for; the prompt is all of them. */
function usageOf(model: string | undefined, usage: Fields): Usage {
  return {
    model,
    promptTokens: sumOf(usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens),
    completionTokens: numberOf(usage.output_tokens),
    cachedTokens: numberOf(usage.cache_read_input_tokens),
  };
}

/** Events of a streamed message, put together again. */
class MessageEvents implements Collector {
  private model: string | undefined;
  private usage: Fields = {};
  private role = "assistant";
  private stopReason: unknown;
  private readonly blocks = new Map<number, Fields>();
  private chars = 0;

  add(piece: unknown): void {
    const event = fieldsOf(piece);
    if (event.type === "message_start") {
      const message = fieldsOf(event.message);
      this.model = textOf(message.model);
      this.role = textOf(message.role) ?? this.role;
      this.addUsage(message.usage);
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
  }

  /** Numbers come at the beginning and again, larger, at the end; some only once. */
  private addUsage(usage: unknown): void {
    for (const [name, value] of Object.entries(fieldsOf(usage))) {
      if (typeof value === "number") this.usage[name] = value;
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
    const output = content.length === 0 ? undefined : { role: this.role, content, stop_reason: this.stopReason };
    const usage = usageOf(this.model, this.usage);
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
