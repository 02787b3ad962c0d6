/** The Responses API: one answer, or events of which the last one holds the whole answer. */

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
  "max_output_tokens",
  "tool_choice",
  "reasoning",
  "previous_response_id",
  "service_tier",
] as const;

/** `responses.create`. */
export const responseMethod: Method = {
  begin: (parameters) => ({
    name: "openai.responses",
    model: textOf(parameters.model),
    input: pick(parameters, ["instructions", "input", "tools"]),
    metadata: pick(parameters, PARAMETERS),
  }),
  shape: () => ({
    finish: (run, value) => finish(run, fieldsOf(value), undefined),
    collector: () => new ResponseEvents(),
  }),
};

/** Input tokens include cached tokens, and output tokens include reasoning tokens. */
function usageOf(response: Fields): Usage {
  const usage = fieldsOf(response.usage);
  return {
    model: textOf(response.model),
    promptTokens: numberOf(usage.input_tokens),
    completionTokens: numberOf(usage.output_tokens),
    totalTokens: numberOf(usage.total_tokens),
    cachedTokens: numberOf(fieldsOf(usage.input_tokens_details).cached_tokens),
    reasoningTokens: numberOf(fieldsOf(usage.output_tokens_details).reasoning_tokens),
  };
}

/** A response may say by itself that it failed. */
function finish(run: Run, response: Fields, output: unknown): void {
  const shown = output ?? response.output;
  if (response.status === "failed") {
    const { code, message } = fieldsOf(response.error);
    run.fail({ name: code ?? "failed", message: message ?? "the response failed" }, shown, usageOf(response));
  } else {
    run.end(shown, usageOf(response));
  }
}

/** Events of a streamed response. */
class ResponseEvents implements Collector {
  private response: Fields = {};
  private text = "";

  add(piece: unknown): void {
    const event = fieldsOf(piece);
    // Sent at the beginning, and whole at the end: completed, incomplete or failed.
    if (event.response !== undefined) this.response = fieldsOf(event.response);
    const isText = event.type === "response.output_text.delta" && typeof event.delta === "string";
    if (isText && this.text.length <= BOUNDS.chars) this.text += event.delta;
  }

  finish(run: Run, failure?: { error: unknown }): void {
    const { output } = this.response;
    const shown = Array.isArray(output) && output.length > 0 ? output : this.text || undefined;
    if (failure) run.fail(failure.error, shown, usageOf(this.response));
    else finish(run, this.response, shown);
  }
}
