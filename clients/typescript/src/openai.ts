/** Observing a client of the package `openai`, or one that has its shape: chat completions, responses, embeddings. */

import { fieldsOf } from "./integrations/fields.js";
import { type ObserveOptions, observeMethod } from "./integrations/observe.js";
import { completionMethod } from "./integrations/openai-completion.js";
import { embeddingMethod } from "./integrations/openai-embedding.js";
import { responseMethod } from "./integrations/openai-response.js";

export type { ObserveOptions } from "./integrations/observe.js";

/**
 * Reports every model call of `client` as a run of type llm, and answers the same client.
 *
 * Answers, promises, streams and errors stay what they are, `.withResponse()` included. The usage of a streamed chat
 * completion is known only to who asks for it: `stream_options: { include_usage: true }`. A client that
 * `client.withOptions()` makes is another one and is observed apart.
 */
export function observeOpenAI<T extends object>(client: T, options: ObserveOptions = {}): T {
  const { chat, responses, embeddings } = fieldsOf(client);
  observeMethod(fieldsOf(chat).completions, "create", completionMethod, options);
  observeMethod(responses, "create", responseMethod, options);
  observeMethod(embeddings, "create", embeddingMethod, options);
  return client;
}
