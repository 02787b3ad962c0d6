/**
 * The Responses API as messages, so that its runs read like runs of chat completions.
 *
 * A response has messages, calls, results and reasoning beside each other; chat has calls and reasoning in the message of
 * the assistant. What is neither, such as a search by the provider, is in `items` of that message.
 */

import { type Fields, fieldsOf, listOf, textOrBlocks } from "./fields.js";

/** A message that is being made. */
interface Answer extends Fields {
  role: "assistant";
  content: unknown;
  reasoning_content?: string;
  refusal?: string;
  tool_calls?: Fields[];
  items?: unknown[];
}

/** What was asked, as messages; what is of no known shape stays as it is. */
export function requestMessages(instructions: unknown, given: unknown): unknown {
  const made = new Messages(false);
  if (instructions) made.list.push({ role: "system", content: instructions });
  if (typeof given === "string") made.list.push({ role: "user", content: given });
  else if (Array.isArray(given)) for (const item of given) made.item(item);
  else if (given !== undefined && given !== null) return instructions ? [...made.list, given] : given;
  return made.list.length > 0 ? made.list : undefined;
}

/** What was answered, as one message of the assistant. */
export function answerMessage(output: unknown): unknown {
  const made = new Messages(true);
  for (const item of listOf(output)) made.answer(fieldsOf(item));
  return made.list[0];
}

/** Searches of the web, which are billed beside tokens; opening a page that was found is none. */
export function answerRequests(output: unknown): number | undefined {
  const searches = listOf(output)
    .map(fieldsOf)
    .filter(({ type, action }) => type === "web_search_call" && (fieldsOf(action).type ?? "search") === "search");
  return searches.length || undefined;
}

/** Messages, each added to the one before where chat has them in one. */
class Messages {
  readonly list: unknown[] = [];

  constructor(private readonly isOne: boolean) {}

  /** An item of a request: a message, a call, or the result of one. */
  item(item: unknown): void {
    const { role, type, content, output, call_id } = fieldsOf(item);
    if (typeof item === "string") this.list.push({ role: "user", content: item });
    else if (typeof role === "string" && role !== "assistant") this.list.push({ role, content: textOrBlocks(content) });
    else if (typeof type === "string" && type.endsWith("_output")) {
      this.list.push({ role: "tool", tool_call_id: call_id ?? null, content: textOrBlocks(output) });
    } else this.answer(fieldsOf(item));
  }

  /** An item that the model made. */
  answer(item: Fields): void {
    const { type, role } = item;
    if (role === "assistant") say(this.assistant("content", "tool_calls"), item.content);
    else if (type === "function_call" || type === "custom_tool_call") {
      const made = { name: item.name, arguments: type === "function_call" ? item.arguments : item.input };
      const answer = this.assistant();
      answer.tool_calls = [...(answer.tool_calls ?? []), { id: item.call_id, type: "function", function: made }];
    } else if (type === "reasoning") {
      const parts = listOf(item.content).length > 0 ? listOf(item.content) : listOf(item.summary);
      const texts = parts.map((part) => fieldsOf(part).text).filter((text) => typeof text === "string" && text !== "");
      if (texts.length === 0) return;
      const answer = this.assistant("content", "tool_calls");
      answer.reasoning_content = [...(answer.reasoning_content ? [answer.reasoning_content] : []), ...texts].join("\n");
    } else {
      const answer = this.assistant();
      answer.items = [...(answer.items ?? []), item];
    }
  }

  /** The message of the assistant that is being made; a new one if that one has one of these already. */
  private assistant(...has: string[]): Answer {
    const last = fieldsOf(this.list.at(-1));
    const isNone = (name: string) => last[name] === undefined || last[name] === null;
    if (last.role === "assistant" && (this.isOne || has.every(isNone))) return last as Answer;
    const made: Answer = { role: "assistant", content: null };
    this.list.push(made);
    return made;
  }
}

/** Adds content to a message, apart from refusals. */
function say(message: Answer, given: unknown): void {
  let content = given;
  if (Array.isArray(given)) {
    const isRefusal = (part: unknown) => fieldsOf(part).type === "refusal";
    const refusals = given.filter(isRefusal);
    if (refusals.length > 0) message.refusal = refusals.map((part) => String(fieldsOf(part).refusal)).join("");
    const others = given.filter((part) => !isRefusal(part));
    content = others.length > 0 ? textOrBlocks(others) : null;
  }
  const before = message.content;
  if (before === null) message.content = content ?? null;
  else if (content === null || content === undefined) return;
  else if (typeof before === "string" && typeof content === "string") message.content = before + content;
  else message.content = [...blocks(before), ...blocks(content)];
}

function blocks(content: unknown): unknown[] {
  return Array.isArray(content) ? content : [{ type: "text", text: content }];
}
