/** Observing a client of the package `@anthropic-ai/sdk`, or one that has its shape: messages, at once and streamed. */

import { messageMethod } from "./integrations/anthropic-message.js";
import { fieldsOf } from "./integrations/fields.js";
import { type ObserveOptions, observeMethod } from "./integrations/observe.js";

export type { ObserveOptions } from "./integrations/observe.js";

/**
 * Reports every `messages.create` and `messages.stream` of `client`, also of its beta, as a run of type llm, and
 * answers the same client. Answers, promises, streams and errors stay what they are.
 */
export function observeAnthropic<T extends object>(client: T, options: ObserveOptions = {}): T {
  const { messages, beta } = fieldsOf(client);
  observeMethod(messages, "create", messageMethod, options);
  observeMethod(fieldsOf(beta).messages, "create", messageMethod, options);
  return client;
}
