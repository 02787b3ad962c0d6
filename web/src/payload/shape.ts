/**
 * What a payload looks like: a conversation in one of the shapes that clients report, JSON, or text. Pure. Nothing in a
 * payload is trusted: what does not fit a shape is left to JSON, which shows everything.
 */

import { bytes } from "../format";
import { parseExact } from "./exact-json";
import { entryCount } from "./fold";

/** A piece of a message. */
export type Part =
  | { kind: "text"; text: string }
  | { kind: "reasoning"; text: string }
  | { kind: "call"; name: string; id?: string; input: unknown }
  | { kind: "result"; id?: string; output: unknown; isError: boolean }
  | { kind: "media"; description: string }
  | { kind: "other"; value: unknown };
/** A message of a conversation. */
export type Message = { role: string; name?: string; parts: Part[] };
/** A conversation, and what stood beside it. */
export type Chat = { messages: Message[]; rest: Record<string, unknown> };
/** Ways to look at a payload. */
export type View = "chat" | "json" | "text";
/** What was recognised. `value` is the payload, or what was written as JSON inside its text. */
export type Shape = { views: View[]; value: unknown; chat?: Chat; isParsed: boolean };

type Fields = Record<string, unknown>;

/** A text longer than this is not tried as JSON. */
const PARSE_CHARS = 4 * 1024 * 1024;

/** How a payload can be looked at; the first view is the one that fits best. */
export function readShape(payload: unknown): Shape {
  const parsed = typeof payload === "string" ? parseInside(payload) : undefined;
  const value = parsed ?? payload;
  const chat = readChat(value);
  const isParsed = parsed !== undefined;
  if (chat) return { views: ["chat", "json", "text"], value, chat, isParsed };
  if (entryCount(value) !== undefined) return { views: ["json", "text"], value, isParsed };
  return { views: ["text"], value, isParsed };
}

/** The object or list that a text is written as, if it is. */
function parseInside(text: string): object | undefined {
  if (text.length > PARSE_CHARS || !/^\s*[[{]/.test(text)) return undefined;
  try {
    const value = parseExact(text);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

/** The conversation in a value, or nothing. */
export function readChat(value: unknown): Chat | undefined {
  if (Array.isArray(value)) {
    // LangChain reports a list of conversations, nearly always of one.
    const list: unknown[] = value.length === 1 && Array.isArray(value[0]) ? value[0] : value;
    const messages = readMessages(list);
    return messages && { messages, rest: {} };
  }
  if (!isFields(value)) return undefined;
  const single = readMessage(value);
  if (single) return { messages: [single], rest: {} };
  return readEnvelope(value);
}

/** Requests and answers of model APIs, with messages inside. */
function readEnvelope(value: Fields): Chat | undefined {
  const { messages, choices, generations, system, ...rest } = value;
  if (Array.isArray(messages)) {
    const list: unknown[] = messages.length === 1 && Array.isArray(messages[0]) ? messages[0] : messages;
    const read = readMessages(list);
    if (!read) return undefined;
    const first = system == null ? [] : [{ role: "system", parts: readContent(system) }];
    return { messages: [...first, ...read], rest: { ...rest, ...present({ choices, generations }) } };
  }
  if (Array.isArray(choices)) {
    const read = readMessages(choices.map((choice) => (isFields(choice) ? choice.message : undefined)));
    return read && { messages: read, rest: { ...rest, ...present({ system, generations }) } };
  }
  if (Array.isArray(generations)) {
    const read = readMessages(
      generations
        .flat(1)
        .map((one) => (isFields(one) ? (one.message ?? { role: "assistant", content: one.text }) : undefined)),
    );
    return read && { messages: read, rest: { ...rest, ...present({ system, choices }) } };
  }
  return undefined;
}

/** All of them, or nothing: a list that is only partly a conversation is none. */
function readMessages(list: unknown[]): Message[] | undefined {
  if (list.length === 0) return undefined;
  const messages: Message[] = [];
  for (const item of list) {
    const message = isFields(item) ? readMessage(item) : undefined;
    if (!message) return undefined;
    messages.push(message);
  }
  return messages;
}

/** Roles by LangChain's names of messages. */
const LANGCHAIN: Record<string, string> = {
  human: "user",
  ai: "assistant",
  system: "system",
  tool: "tool",
  function: "function",
  chat: "chat",
};

function readMessage(item: Fields): Message | undefined {
  // LangChain, serialised: {"lc": 1, "type": "constructor", "id": [..., "HumanMessage"], "kwargs": {...}}.
  if (Array.isArray(item.id) && isFields(item.kwargs)) {
    const last: unknown = item.id.at(-1);
    if (typeof last !== "string") return undefined;
    const kind = last.match(/^(Human|AI|System|Tool|Function|Chat)Message(Chunk)?$/)?.[1];
    return kind ? readMessage({ role: LANGCHAIN[kind.toLowerCase()] ?? kind, ...item.kwargs }) : undefined;
  }
  const type = typeof item.type === "string" ? item.type : "";
  if (typeof item.role !== "string") {
    const langchain = Object.hasOwn(LANGCHAIN, type.toLowerCase()) ? LANGCHAIN[type.toLowerCase()] : undefined;
    if (langchain && isFields(item.data)) return readMessage({ role: langchain, ...item.data });
    if (langchain && hasContent(item)) return readMessage({ ...item, role: langchain });
    // The Responses API has calls and their results beside messages.
    if (type === "function_call") return { role: "assistant", parts: [readCall(item)] };
    if (type === "function_call_output") return { role: "tool", parts: [readResult(item, item.output)] };
    return undefined;
  }
  if (!hasContent(item)) return undefined;
  const role = item.role === "ai" ? "assistant" : item.role;
  const content = item.content ?? item.parts ?? item.text;
  const isResult = role === "tool" || role === "function";
  const parts: Part[] = [];
  const reasoning = item.reasoning_content ?? item.reasoning;
  if (typeof reasoning === "string" && reasoning !== "") parts.push({ kind: "reasoning", text: reasoning });
  if (isResult && !isTyped(content)) parts.push(readResult(item, content));
  else parts.push(...readContent(content));
  if (typeof item.refusal === "string" && item.refusal !== "") parts.push({ kind: "text", text: item.refusal });
  const calls = item.tool_calls ?? (isFields(item.additional_kwargs) ? item.additional_kwargs.tool_calls : undefined);
  if (Array.isArray(calls)) for (const call of calls) parts.push(isFields(call) ? readCall(call) : other(call));
  if (isFields(item.function_call)) parts.push(readCall(item.function_call));
  const name = typeof item.name === "string" && item.name !== "" ? { name: item.name } : {};
  return { role, ...name, parts };
}

function hasContent(item: Fields): boolean {
  const { content, text, parts, tool_calls, function_call } = item;
  const isContent = (value: unknown) => typeof value === "string" || Array.isArray(value) || isFields(value);
  if (isContent(content) || Array.isArray(parts) || Array.isArray(tool_calls) || isFields(function_call)) return true;
  return typeof text === "string" || ("content" in item && content === null);
}

function isTyped(content: unknown): boolean {
  return Array.isArray(content) && content.some((part) => isFields(part) && typeof part.type === "string");
}

function readContent(content: unknown): Part[] {
  if (content == null || content === "") return [];
  if (typeof content === "string") return [{ kind: "text", text: content }];
  if (Array.isArray(content)) return content.map(readPart);
  return [isFields(content) ? readPart(content) : other(content)];
}

function readPart(part: unknown): Part {
  if (typeof part === "string") return { kind: "text", text: part };
  if (!isFields(part)) return other(part);
  const type = typeof part.type === "string" ? part.type : "";
  const text = [part.text, part.content].find((one) => typeof one === "string");
  if (["text", "input_text", "output_text", ""].includes(type)) {
    return typeof text === "string" ? { kind: "text", text } : other(part);
  }
  if (type === "thinking" || type === "reasoning") {
    const thought = typeof part.thinking === "string" ? part.thinking : text;
    return typeof thought === "string" ? { kind: "reasoning", text: thought } : other(part);
  }
  if (type === "refusal" && typeof part.refusal === "string") return { kind: "text", text: part.refusal };
  if (["tool_use", "tool_call", "function_call", "server_tool_use"].includes(type)) return readCall(part);
  if (["tool_result", "tool_call_response", "function_call_output"].includes(type)) {
    return readResult(part, part.content ?? part.response ?? part.output ?? part.result);
  }
  const media = readMedia(type, part);
  return media ? { kind: "media", description: media } : other(part);
}

function readCall(call: Fields): Part {
  const inner = isFields(call.function) ? call.function : call;
  const given = inner.arguments ?? inner.args ?? inner.input ?? inner.parameters ?? null;
  const name = typeof inner.name === "string" && inner.name !== "" ? inner.name : "a tool";
  const input = typeof given === "string" ? (parseInside(given) ?? given) : given;
  return { kind: "call", name, ...idOf(call), input };
}

function readResult(from: Fields, content: unknown): Part {
  // A list of texts alone is one text.
  const texts = Array.isArray(content) ? content.map(readPart) : [];
  const isText = texts.length > 0 && texts.every((part) => part.kind === "text");
  const joined = isText ? texts.map((part) => (part.kind === "text" ? part.text : "")).join("\n") : content;
  const output = typeof joined === "string" ? (parseInside(joined) ?? joined) : joined;
  return { kind: "result", ...idOf(from), output, isError: from.is_error === true || from.status === "error" };
}

function idOf(from: Fields): { id?: string } {
  const id = [from.tool_use_id, from.tool_call_id, from.call_id, from.id].find((one) => typeof one === "string");
  return typeof id === "string" && id !== "" ? { id } : {};
}

/** Kinds of media by what a part's type says. Nothing is ever loaded from a payload. */
const MEDIA: [RegExp, string][] = [
  [/image/, "Image"],
  [/audio/, "Audio"],
  [/video/, "Video"],
  [/file|document|blob/, "File"],
];

function readMedia(type: string, part: Fields): string | undefined {
  const kind = MEDIA.find(([pattern]) => pattern.test(type))?.[1];
  if (!kind) return undefined;
  const sources = [part, part.image_url, part.input_audio, part.file, part.source, part.audio].filter(isFields);
  const pick = (...names: string[]) => {
    for (const source of sources) {
      for (const name of names)
        if (typeof source[name] === "string" && source[name] !== "") return String(source[name]);
    }
    return undefined;
  };
  const address = typeof part.image_url === "string" ? part.image_url : pick("url", "uri");
  const inline = address?.match(/^data:([^;,]{0,100})[^,]{0,100},/);
  const data = inline ? address?.slice(inline[0].length) : pick("data", "file_data");
  const said = [
    inline?.[1] ?? pick("media_type", "mime_type", "format"),
    pick("filename", "title", "file_id"),
    inline ? undefined : address?.slice(0, 300),
    data === undefined ? undefined : `${bytes(Math.floor((data.length * 3) / 4))} of data`,
  ].filter((one) => one !== undefined && one !== "");
  return said.length > 0 ? `${kind}: ${said.join(", ")}` : kind;
}

function other(value: unknown): Part {
  return { kind: "other", value };
}

function present(fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

function isFields(value: unknown): value is Fields {
  return entryCount(value) !== undefined && !Array.isArray(value);
}
