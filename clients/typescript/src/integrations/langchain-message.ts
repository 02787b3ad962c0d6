/** Reading what LangChain hands to its callbacks: messages, generations and their usage. */

import type { Usage } from "../event.js";
import { type Fields, fieldsOf, numberOf, pick, textOf } from "./fields.js";

/** Roles by LangChain's own names for the types of messages. */
const ROLES: Record<string, string> = { human: "user", ai: "assistant" };

/** Messages as a model sees them. */
export function messagesOf(messages: unknown): unknown[] {
  return Array.isArray(messages) ? messages.map(messageOf) : [];
}

function messageOf(message: unknown): unknown {
  const fields = fieldsOf(message);
  // Its type is a method in older versions, which newer ones still have.
  const type = textOf(fields.type) ?? callOf(fields, "_getType") ?? callOf(fields, "getType");
  if (type === undefined) return message;
  const calls = Array.isArray(fields.tool_calls) && fields.tool_calls.length > 0 ? fields.tool_calls : undefined;
  return { role: ROLES[type] ?? type, content: fields.content, tool_calls: calls, ...pick(fields, ["tool_call_id"]) };
}

function callOf(fields: Fields, name: string): string | undefined {
  const method = fields[name];
  return typeof method === "function" ? textOf(method.call(fields)) : undefined;
}

/** The generations of an `LLMResult`: for each prompt a list. */
function generationsOf(result: unknown): Fields[][] {
  const { generations } = fieldsOf(result);
  return Array.isArray(generations) ? generations.map((prompt) => [prompt].flat().map(fieldsOf)) : [];
}

/** What the model answered; a single answer is itself. */
export function outputOf(result: unknown): unknown {
  const answers = generationsOf(result).flat();
  const outputs = answers.map(({ message, text }) => (message === undefined ? text : messageOf(message)));
  return outputs.length === 1 ? outputs[0] : outputs;
}

/**
 * What it cost, as the message says it, else as the provider's package put it beside the answer.
 *
 * Of several answers to one prompt each may have the usage of all: then what is beside them counts, and where there is
 * nothing, equal usages count once.
 *
 * `usage_metadata.input_tokens` is "the sum of all input token types" (type UsageMetadata of `@langchain/core`).
 */
export function usageOf(result: unknown): Usage {
  const usage: Usage = {};
  const prompts = generationsOf(result);
  for (const answers of prompts) {
    const seen = new Set<string>();
    for (const { message } of answers) {
      const { usage_metadata: tokens, response_metadata: about } = fieldsOf(message);
      usage.model ??= textOf(fieldsOf(about).model_name) ?? textOf(fieldsOf(about).model);
      const one = messageUsageOf(fieldsOf(tokens));
      const word = one.map(String).join();
      if (seen.has(word)) continue;
      seen.add(word);
      const [prompt, completion, total, cached, reasoning] = one;
      usage.promptTokens = added(usage.promptTokens, prompt);
      usage.completionTokens = added(usage.completionTokens, completion);
      usage.totalTokens = added(usage.totalTokens, total);
      usage.cachedTokens = added(usage.cachedTokens, cached);
      usage.reasoningTokens = added(usage.reasoningTokens, reasoning);
    }
  }
  const output = fieldsOf(fieldsOf(result).llmOutput);
  const isKnown = usage.promptTokens !== undefined || usage.totalTokens !== undefined;
  const hasSeveral = prompts.flat().length > 1 && numberOf(fieldsOf(output.tokenUsage).promptTokens) !== undefined;
  if (isKnown && !hasSeveral) return usage;
  const { promptTokens, completionTokens, totalTokens } = fieldsOf(output.tokenUsage ?? output.estimatedTokenUsage);
  return {
    ...usage,
    model: usage.model ?? textOf(output.model_name),
    promptTokens: numberOf(promptTokens),
    completionTokens: numberOf(completionTokens),
    totalTokens: numberOf(totalTokens),
  };
}

/** The numbers of one message: prompt, completion, total, cached, reasoning. */
function messageUsageOf(tokens: Fields): (number | undefined)[] {
  const { input_tokens, output_tokens, total_tokens, input_token_details, output_token_details } = tokens;
  const { cache_read } = fieldsOf(input_token_details);
  const { reasoning } = fieldsOf(output_token_details);
  return [input_tokens, output_tokens, total_tokens, cache_read, reasoning].map(numberOf);
}

/** Several prompts of one call have one usage each. */
function added(sum: number | undefined, more: number | undefined): number | undefined {
  return more !== undefined ? (sum ?? 0) + more : sum;
}

/** The name of a component: the last part of its id. */
export function nameOfSerialized(serialized: unknown): string | undefined {
  const { name, id } = fieldsOf(serialized);
  return textOf(name) ?? (Array.isArray(id) ? textOf(id[id.length - 1]) : undefined);
}
