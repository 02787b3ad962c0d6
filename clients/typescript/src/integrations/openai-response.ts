/** The Responses API: one answer, or events of which the last one holds the whole answer. */

import type { Usage } from "../event.js";
import type { Run } from "../run.js";
import { BOUNDS } from "../snapshot.js";
import type { Collector } from "../stream.js";
import { type Fields, fieldsOf, listOf, pick, textOf } from "./fields.js";
import type { Method } from "./observe.js";
import { finished, PARAMETERS, usageOf } from "./openai-usage.js";
import { answerMessage, answerRequests, requestMessages } from "./response-messages.js";

/** `responses.create`. */
export const responseMethod: Method = {
  begin: (parameters) => ({
    name: "openai.responses",
    model: textOf(parameters.model),
    input: requestMessages(parameters.instructions, parameters.input),
    metadata: pick(parameters, PARAMETERS),
  }),
  shape: () => ({
    finish: (run, value) => finish(run, fieldsOf(value), undefined),
    collector: () => new ResponseEvents(),
  }),
};

/** A response may say by itself that it failed. */
function finish(run: Run, response: Fields, text: string | undefined, failure?: { error: unknown }): void {
  const { output, status, error } = response;
  const usage: Usage = { ...usageOf(response), requests: answerRequests(output) };
  const shown = listOf(output).length > 0 ? answerMessage(output) : text && { role: "assistant", content: text };
  if (status !== "in_progress") finished(run, fieldsOf(response.incomplete_details).reason ?? status);
  if (failure) run.fail(failure.error, shown, usage);
  else if (status === "failed") {
    const { code, message } = fieldsOf(error);
    run.fail({ name: code ?? "failed", message: message ?? "the response failed" }, shown, usage);
  } else run.end(shown, usage);
}

/** Events of a streamed response. */
class ResponseEvents implements Collector {
  private response: Fields = {};
  private text = "";

  add(piece: unknown): boolean {
    const { response, type, delta } = fieldsOf(piece);
    // Sent at the beginning, and whole at the end: completed, incomplete or failed.
    if (response !== undefined) this.response = fieldsOf(response);
    const isText = type === "response.output_text.delta" && typeof delta === "string";
    if (isText && this.text.length <= BOUNDS.chars) this.text += delta;
    return typeof type === "string" && type.endsWith(".delta");
  }

  finish(run: Run, failure?: { error: unknown }): void {
    finish(run, this.response, this.text || undefined, failure);
  }
}
