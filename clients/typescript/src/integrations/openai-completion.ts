/** Chat completions: what was asked, what came back at once or in pieces, and what it cost. */

import type { Usage } from "../event.js";
import type { Run } from "../run.js";
import { BOUNDS } from "../snapshot.js";
import type { Collector } from "../stream.js";
import { type Fields, fieldsOf, numberOf, pick, textOf } from "./fields.js";
import type { Method } from "./observe.js";

/** Parameters worth seeing beside the run. */
const PARAMETERS = [
  "temperature",
  "top_p",
  "max_tokens",
  "max_completion_tokens",
  "n",
  "stop",
  "seed",
  "tool_choice",
  "response_format",
  "reasoning_effort",
  "service_tier",
] as const;

/** `chat.completions.create`. */
export const completionMethod: Method = {
  begin: (parameters) => ({
    name: "openai.chat",
    model: textOf(parameters.model),
    input: pick(parameters, ["messages", "tools", "functions"]),
    metadata: pick(parameters, PARAMETERS),
  }),
  shape: () => ({
    finish(run, value) {
      const answer = fieldsOf(value);
      const choices = Array.isArray(answer.choices) ? answer.choices : [];
      run.end(outputOf(choices.map((choice) => fieldsOf(choice).message)), usageOf(answer));
    },
    collector: () => new Chunks(),
  }),
};

/** One answer is shown as itself; several as a list. */
function outputOf(messages: unknown[]): unknown {
  return messages.length === 1 ? messages[0] : messages;
}

/** Prompt tokens of OpenAI include cached tokens, and completion tokens include reasoning tokens. */
function usageOf(answer: Fields): Usage {
  const usage = fieldsOf(answer.usage);
  return {
    model: textOf(answer.model),
    promptTokens: numberOf(usage.prompt_tokens),
    completionTokens: numberOf(usage.completion_tokens),
    totalTokens: numberOf(usage.total_tokens),
    cachedTokens: numberOf(fieldsOf(usage.prompt_tokens_details).cached_tokens),
    reasoningTokens: numberOf(fieldsOf(usage.completion_tokens_details).reasoning_tokens),
  };
}

interface Choice {
  role: string;
  content: string;
  refusal: string;
  calls: Map<number, { id?: string; type: string; function: { name: string; arguments: string } }>;
}

/** The pieces of a streamed completion, put together again. */
class Chunks implements Collector {
  private readonly choices = new Map<number, Choice>();
  private usage: Usage = {};
  private chars = 0;

  add(piece: unknown): void {
    const chunk = fieldsOf(piece);
    const usage = usageOf(chunk);
    // Only the last chunk has a usage, and all have the model.
    for (const [name, value] of Object.entries(usage)) {
      if (value !== undefined) this.usage = { ...this.usage, [name]: value };
    }
    for (const part of Array.isArray(chunk.choices) ? chunk.choices : []) {
      const { index, delta } = fieldsOf(part);
      this.addDelta(this.choice(numberOf(index) ?? 0), fieldsOf(delta));
    }
  }

  private choice(index: number): Choice {
    let choice = this.choices.get(index);
    if (!choice) {
      choice = { role: "assistant", content: "", refusal: "", calls: new Map() };
      if (this.choices.size < BOUNDS.items) this.choices.set(index, choice);
    }
    return choice;
  }

  private addDelta(choice: Choice, delta: Fields): void {
    choice.role = textOf(delta.role) || choice.role;
    choice.content += this.bounded(delta.content);
    choice.refusal += this.bounded(delta.refusal);
    for (const call of Array.isArray(delta.tool_calls) ? delta.tool_calls : []) {
      const { index, id, function: part } = fieldsOf(call);
      const at = numberOf(index) ?? 0;
      let known = choice.calls.get(at);
      if (!known) {
        known = { type: "function", function: { name: "", arguments: "" } };
        if (choice.calls.size < BOUNDS.items) choice.calls.set(at, known);
      }
      if (typeof id === "string") known.id = id;
      known.function.name += this.bounded(fieldsOf(part).name);
      known.function.arguments += this.bounded(fieldsOf(part).arguments);
    }
  }

  private bounded(text: unknown): string {
    if (typeof text !== "string" || this.chars > BOUNDS.chars) return "";
    this.chars += text.length;
    return text;
  }

  finish(run: Run, failure?: { error: unknown }): void {
    const messages = [...this.choices.values()].map(({ role, content, refusal, calls }) => ({
      role,
      content: content === "" && calls.size > 0 ? null : content,
      ...(refusal === "" ? {} : { refusal }),
      ...(calls.size === 0 ? {} : { tool_calls: [...calls.values()] }),
    }));
    const output = messages.length === 0 ? undefined : outputOf(messages);
    if (failure) run.fail(failure.error, output, this.usage);
    else run.end(output, this.usage);
  }
}
