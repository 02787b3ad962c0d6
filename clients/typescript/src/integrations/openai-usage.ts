/** The usage of OpenAI's answers, of either kind; its details are parts of the prompt and of the completion. */

import type { Usage } from "../event.js";
import type { Run } from "../run.js";
import { countOf, type Fields, fieldsOf, partsOf, textOf } from "./fields.js";

/** Parameters worth seeing beside the run. Also in the Python client; `clients/fixtures` has what both report. */
export const PARAMETERS = [
  "temperature",
  "top_p",
  "max_tokens",
  "max_completion_tokens",
  "max_output_tokens",
  "n",
  "stop",
  "seed",
  "tools",
  "tool_choice",
  "functions",
  "response_format",
  "reasoning_effort",
  "reasoning",
  "previous_response_id",
  "service_tier",
  "stream",
] as const;

/** What an answer used, without the model and the tier, which stand beside it. */
export function tokensOf(usage: Fields): Usage {
  const promptTokens = countOf(usage.prompt_tokens) ?? countOf(usage.input_tokens);
  const completionTokens = countOf(usage.completion_tokens) ?? countOf(usage.output_tokens);
  const prompt = fieldsOf(usage.prompt_tokens_details ?? usage.input_tokens_details);
  const completion = fieldsOf(usage.completion_tokens_details ?? usage.output_tokens_details);
  const [cachedTokens, cacheWriteTokens, inputAudioTokens, inputImageTokens] = partsOf(
    promptTokens,
    countOf(prompt.cached_tokens),
    countOf(prompt.cache_write_tokens),
    freshOf(prompt, "audio_tokens"),
    freshOf(prompt, "image_tokens"),
  );
  const [reasoningTokens, outputAudioTokens] = partsOf(
    completionTokens,
    countOf(completion.reasoning_tokens),
    countOf(completion.audio_tokens),
  );
  return {
    promptTokens,
    completionTokens,
    totalTokens: countOf(usage.total_tokens),
    cachedTokens,
    cacheWriteTokens,
    inputAudioTokens,
    inputImageTokens,
    reasoningTokens,
    outputAudioTokens,
  };
}

/** Tokens of a kind that no cache had; the cached ones are counted as cached. */
function freshOf(details: Fields, name: string): number | undefined {
  const all = countOf(details[name]);
  const cached = countOf(fieldsOf(details.cached_tokens_details)[name]);
  return all === undefined || cached === undefined ? all : Math.max(0, all - cached);
}

/** What an answer used. */
export function usageOf(answer: Fields): Usage {
  return {
    model: textOf(answer.model),
    responseId: textOf(answer.id),
    serviceTier: textOf(answer.service_tier),
    ...tokensOf(fieldsOf(answer.usage)),
  };
}

/** Why the model stopped. */
export function finished(run: Run, reason: unknown): void {
  if (typeof reason === "string") run.metadata({ finish_reason: reason });
}
