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

/** Every generation of an `LLMResult`, in one list; a single one is itself. */
function generationsOf(result: unknown): Fields[] {
  const { generations } = fieldsOf(result);
  return Array.isArray(generations) ? generations.flat().map(fieldsOf) : [];
}

/** What the model answered. */
export function outputOf(result: unknown): unknown {
  const outputs = generationsOf(result).map(({ message, text }) => (message === undefined ? text : messageOf(message)));
  return outputs.length === 1 ? outputs[0] : outputs;
}

/**
 * What it cost, as the message says it, else as the provider's package put it beside the answer.
 *
 * `usage_metadata.input_tokens` is "the sum of all input token types" (type UsageMetadata of `@langchain/core`).
 */
export function usageOf(result: unknown): Usage {
  const usage: Usage = {};
  for (const { message } of generationsOf(result)) {
    const { usage_metadata: tokens, response_metadata: about } = fieldsOf(message);
    usage.model ??= textOf(fieldsOf(about).model_name) ?? textOf(fieldsOf(about).model);
    const { input_tokens, output_tokens, total_tokens, input_token_details, output_token_details } = fieldsOf(tokens);
    usage.promptTokens = added(usage.promptTokens, input_tokens);
    usage.completionTokens = added(usage.completionTokens, output_tokens);
    usage.totalTokens = added(usage.totalTokens, total_tokens);
    usage.cachedTokens = added(usage.cachedTokens, fieldsOf(input_token_details).cache_read);
    usage.reasoningTokens = added(usage.reasoningTokens, fieldsOf(output_token_details).reasoning);
  }
  if (usage.promptTokens !== undefined || usage.totalTokens !== undefined) return usage;
  const output = fieldsOf(fieldsOf(result).llmOutput);
  const { promptTokens, completionTokens, totalTokens } = fieldsOf(output.tokenUsage ?? output.estimatedTokenUsage);
  return {
    model: usage.model ?? textOf(output.model_name),
    promptTokens: numberOf(promptTokens),
    completionTokens: numberOf(completionTokens),
    totalTokens: numberOf(totalTokens),
  };
}

/** Several prompts of one call have one usage each. */
function added(sum: number | undefined, more: unknown): number | undefined {
  return typeof more === "number" ? (sum ?? 0) + more : sum;
}

/** The name of a component: the last part of its id. */
export function nameOfSerialized(serialized: unknown): string | undefined {
  const { name, id } = fieldsOf(serialized);
  return textOf(name) ?? (Array.isArray(id) ? textOf(id[id.length - 1]) : undefined);
}
