/** Chat completions: what was asked, what came back at once or in pieces, and what it cost. */

import type { Run } from "../run.js";
import { BOUNDS } from "../snapshot.js";
import type { Collector } from "../stream.js";
import { type Fields, fieldsOf, listOf, numberOf, pick, present, textOf } from "./fields.js";
import type { Method } from "./observe.js";
import { finished, PARAMETERS, usageOf } from "./openai-usage.js";

/** What a message may have beside its content. */
const SAID = [
  "reasoning_content",
  "reasoning",
  "refusal",
  "tool_calls",
  "function_call",
  "audio",
  "annotations",
] as const;
/** What comes in pieces of text. */
const TEXTS = ["content", "refusal", "reasoning_content", "reasoning"] as const;

/** `chat.completions.create`. */
export const completionMethod: Method = {
  begin: (parameters) => ({
    name: "openai.chat",
    model: textOf(parameters.model),
    input: parameters.messages,
    metadata: pick(parameters, PARAMETERS),
  }),
  shape: () => ({
    finish(run, value) {
      const answer = fieldsOf(value);
      const choices = listOf(answer.choices).map(fieldsOf);
      finished(run, choices[0]?.finish_reason);
      run.end(outputOf(choices.map(({ message }) => messageOf(fieldsOf(message)))), usageOf(answer));
    },
    collector: () => new Chunks(),
  }),
};

/** One answer is shown as itself; several as a list. */
function outputOf(messages: unknown[]): unknown {
  return messages.length > 1 ? messages : messages[0];
}

/** A message of the assistant, without what it has not. */
function messageOf(message: Fields): Fields {
  const { role, content } = message;
  return { role: role || "assistant", content: content ?? null, ...present(message, SAID) };
}

interface Choice {
  texts: Partial<Record<(typeof TEXTS)[number], string>>;
  calls: Map<number, { id: string | null; type: string; function: { name: string; arguments: string } }>;
  reason: unknown;
}

/** The pieces of a streamed completion, put together again. */
class Chunks implements Collector {
  private readonly choices = new Map<number, Choice>();
  /** What stands beside the choices; only the last chunk has a usage. */
  private answer: Fields = {};
  private chars = 0;

  add(piece: unknown): boolean {
    const chunk = fieldsOf(piece);
    this.answer = { ...this.answer, ...present(chunk, ["model", "id", "service_tier", "usage"]) };
    let isToken = false;
    for (const part of listOf(chunk.choices)) {
      const { index, delta, finish_reason } = fieldsOf(part);
      const choice = this.choice(numberOf(index) ?? 0);
      choice.reason = finish_reason ?? choice.reason;
      isToken = this.addDelta(choice, fieldsOf(delta)) || isToken;
    }
    return isToken;
  }

  private choice(index: number): Choice {
    let choice = this.choices.get(index);
    if (!choice) {
      choice = { texts: {}, calls: new Map(), reason: undefined };
      if (this.choices.size < BOUNDS.items) this.choices.set(index, choice);
    }
    return choice;
  }

  private addDelta(choice: Choice, delta: Fields): boolean {
    let isToken = Boolean(delta.audio);
    for (const name of TEXTS) {
      const text = delta[name];
      if (typeof text !== "string" || text === "") continue;
      isToken = true;
      choice.texts[name] = (choice.texts[name] ?? "") + this.bounded(text);
    }
    for (const call of listOf(delta.tool_calls)) {
      isToken = true;
      const { index, id, function: part } = fieldsOf(call);
      const at = numberOf(index) ?? 0;
      let known = choice.calls.get(at);
      if (!known) {
        known = { id: null, type: "function", function: { name: "", arguments: "" } };
        if (choice.calls.size < BOUNDS.items) choice.calls.set(at, known);
      }
      if (typeof id === "string") known.id = id;
      known.function.name += this.bounded(fieldsOf(part).name);
      known.function.arguments += this.bounded(fieldsOf(part).arguments);
    }
    return isToken;
  }

  private bounded(text: unknown): string {
    if (typeof text !== "string" || this.chars > BOUNDS.chars) return "";
    this.chars += text.length;
    return text;
  }

  finish(run: Run, failure?: { error: unknown }): void {
    const choices = [...this.choices].sort(([one], [other]) => one - other).map(([, choice]) => choice);
    finished(run, choices[0]?.reason);
    const output = outputOf(
      choices.map(({ texts, calls }) => ({
        role: "assistant",
        content: null,
        ...texts,
        ...(calls.size === 0 ? {} : { tool_calls: [...calls.values()] }),
      })),
    );
    const usage = usageOf(this.answer);
    if (failure) run.fail(failure.error, output, usage);
    else run.end(output, usage);
  }
}
