/** Reading what LangChain hands to its callbacks: messages, generations and their usage. */

import type { Usage } from "../event.js";
import { countOf, type Fields, fieldsOf, partsOf, pick, textOf } from "./fields.js";
import { tokensOf } from "./openai-usage.js";

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
  const { role, content } = fields;
  const about = pick(fields, ["tool_call_id", "name"]);
  return { role: textOf(role) ?? ROLES[type] ?? type, content, tool_calls: calls, ...about };
}

/** How many values of an input or output are looked at for messages; what is beyond stays as it is. */
const NODES = 10_000;
const DEPTH = 24;

/** Messages as role and content, wherever they stand; documents by their text. */
export function plain(value: unknown): unknown {
  let left = NODES;
  const of = (part: unknown, depth: number): unknown => {
    left--;
    if (left < 0 || depth > DEPTH || typeof part !== "object" || part === null) return part;
    if (Array.isArray(part)) return part.length > left ? part : part.map((item) => of(item, depth + 1));
    const fields = fieldsOf(part);
    const isMessage = "content" in fields && "additional_kwargs" in fields;
    if (isMessage) return messageOf(part);
    if ("pageContent" in fields) return { page_content: fields.pageContent, metadata: fields.metadata };
    if (typeof fields.toChatMessages === "function") return of(fields.toChatMessages(), depth + 1);
    if (Object.getPrototypeOf(part) !== Object.prototype) return part;
    return Object.fromEntries(Object.entries(fields).map(([key, one]) => [key, of(one, depth + 1)]));
  };
  try {
    return of(value, 0);
  } catch {
    return value;
  }
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
  const about: Usage = {};
  let tokens: Usage = {};
  const prompts = generationsOf(result);
  for (const answers of prompts) {
    const seen = new Set<string>();
    for (const { message } of answers) {
      const { id, usage_metadata, response_metadata } = fieldsOf(message);
      const said = fieldsOf(response_metadata);
      about.model ??= textOf(said.model_name) ?? textOf(said.model);
      about.responseId ??= responseIdOf(said.id) ?? responseIdOf(id);
      about.serviceTier ??= textOf(said.service_tier) ?? tierOf(fieldsOf(usage_metadata));
      const one = messageUsageOf(fieldsOf(usage_metadata));
      const word = JSON.stringify(one);
      if (seen.has(word)) continue;
      seen.add(word);
      tokens = added(tokens, one);
    }
  }
  const output = fieldsOf(fieldsOf(result).llmOutput);
  const isKnown = tokens.promptTokens !== undefined || tokens.totalTokens !== undefined;
  const hasSeveral = prompts.flat().length > 1 && countOf(fieldsOf(output.tokenUsage).promptTokens) !== undefined;
  if (isKnown && !hasSeveral) return { ...about, ...tokens };
  const { promptTokens, completionTokens, totalTokens } = fieldsOf(output.tokenUsage ?? output.estimatedTokenUsage);
  return {
    ...about,
    model: about.model ?? textOf(output.model_name),
    ...tokens,
    // Packages that use the provider's own words hand on its details too.
    ...known(tokensOf(fieldsOf(output.token_usage ?? output.usage))),
    ...known({
      promptTokens: countOf(promptTokens),
      completionTokens: countOf(completionTokens),
      totalTokens: countOf(totalTokens),
    }),
  };
}

/** The package for OpenAI puts these before the names of the counts. */
const TIERS = ["priority", "flex"];

function tierOf({ input_token_details, output_token_details }: Fields): string | undefined {
  const details = { ...fieldsOf(input_token_details), ...fieldsOf(output_token_details) };
  return TIERS.find((tier) => tier in details);
}

/** The provider's identifier; where it is unknown the package makes one, which says nothing. */
function responseIdOf(id: unknown): string | undefined {
  const text = textOf(id);
  return text === undefined || text === "" || /^(run-|lc_)/.test(text) ? undefined : text;
}

/** The usage of one message. */
function messageUsageOf(tokens: Fields): Usage {
  const details = fieldsOf(tokens.input_token_details);
  const promptTokens = countOf(tokens.input_tokens);
  const completionTokens = countOf(tokens.output_tokens);
  const hour = detailOf(details, "ephemeral_1h_input_tokens");
  const short = detailOf(details, "ephemeral_5m_input_tokens");
  const created = detailOf(details, "cache_creation");
  const isWritten = created !== undefined || short !== undefined;
  const written = isWritten ? Math.max((created ?? 0) - (hour ?? 0), short ?? 0) : undefined;
  const [cachedTokens, cacheWriteTokens, cacheWrite1hTokens, inputAudioTokens, inputImageTokens] = partsOf(
    promptTokens,
    detailOf(details, "cache_read"),
    written,
    hour,
    detailOf(details, "audio"),
    detailOf(details, "image"),
  );
  const outs = fieldsOf(tokens.output_token_details);
  const spoken = detailOf(outs, "audio");
  const [reasoningTokens, outputAudioTokens] = partsOf(completionTokens, detailOf(outs, "reasoning"), spoken);
  return known({
    promptTokens,
    completionTokens,
    totalTokens: countOf(tokens.total_tokens),
    cachedTokens,
    cacheWriteTokens,
    cacheWrite1hTokens,
    inputAudioTokens,
    inputImageTokens,
    reasoningTokens,
    outputAudioTokens,
  });
}

/** A part of the tokens, with or without its tier. */
function detailOf(details: Fields, name: string): number | undefined {
  const counts = [name, ...TIERS.map((tier) => `${tier}_${name}`)].map((key) => countOf(details[key]));
  const found = counts.filter((count) => count !== undefined);
  return found.length > 0 ? found.reduce((sum, count) => sum + count, 0) : undefined;
}

function known(usage: Usage): Usage {
  return Object.fromEntries(Object.entries(usage).filter(([, value]) => value !== undefined));
}

/** Several prompts of one call have one usage each. */
function added(sum: Usage, more: Usage): Usage {
  const all: Record<string, unknown> = { ...sum };
  for (const [name, value] of Object.entries(more)) all[name] = (countOf(all[name]) ?? 0) + Number(value);
  return all;
}

/** The name of a component: the last part of its id. */
export function nameOfSerialized(serialized: unknown): string | undefined {
  const { name, id } = fieldsOf(serialized);
  return textOf(name) ?? (Array.isArray(id) ? textOf(id[id.length - 1]) : undefined);
}
