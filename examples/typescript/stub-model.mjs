/**
 * A model on loopback for trying things out: it speaks like OpenAI and like Anthropic, at once and streamed.
 *
 * It asks for the first tool it is offered, and answers once it sees a tool's result. A prompt with the word FAIL fails.
 * Run it with `node stub-model.mjs`, or start it from a program.
 */

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";

/** What every call costs. */
export const USAGE = { prompt: 37, cached: 8, completion: 11, reasoning: 3 };
export const ANSWER = "Paris has 18 degrees and light rain.";
const CALL = { name: "get_weather", arguments: '{"city":"Paris"}' };

/** Each response has an identifier of its own: runs of one response are counted once. */
const newId = (kind) => kind + randomUUID().replaceAll("-", "");

const ROUTES = {
  "/v1/chat/completions": chatCompletion,
  "/v1/responses": response,
  "/v1/embeddings": embedding,
  "/v1/messages": message,
};

/** Starts it on a port, by default a free one. `url` is for Anthropic's clients; OpenAI's want `/v1` after it. */
export async function startStubModel(port = 0) {
  const server = createServer((request, answer) => {
    let body = "";
    request.setEncoding("utf8");
    request.on("data", (part) => {
      body += part;
    });
    request.on("end", () => {
      const route = ROUTES[new URL(request.url, "http://model").pathname];
      if (!route) return send(answer, 404, { error: { message: "no such path" } });
      if (body.includes("FAIL")) {
        return send(answer, 400, { type: "error", error: { type: "invalid_request_error", message: "the model failed" } });
      }
      route(JSON.parse(body), answer);
    });
  });
  await new Promise((listening) => server.listen(port, "127.0.0.1", listening));
  const close = () => {
    server.closeAllConnections();
    return new Promise((closed) => server.close(closed));
  };
  return { url: `http://127.0.0.1:${server.address().port}`, close };
}

function send(answer, status, body) {
  answer.writeHead(status, { "content-type": "application/json", "x-request-id": "req_stub", "request-id": "req_stub" });
  answer.end(JSON.stringify(body));
}

/** Server-sent events. */
function stream(answer, events) {
  answer.writeHead(200, { "content-type": "text/event-stream", "x-request-id": "req_stub", "request-id": "req_stub" });
  for (const event of events) {
    if (event.type) answer.write(`event: ${event.type}\n`);
    answer.write(`data: ${typeof event === "string" ? event : JSON.stringify(event)}\n\n`);
  }
  answer.end();
}

function words(text) {
  return text.split(/(?<= )/);
}

function chatCompletion(request, answer) {
  const asksTool = request.tools && !request.messages.some(({ role }) => role === "tool");
  const head = { id: newId("chatcmpl-"), created: 1_760_000_000, model: `${request.model}-2024-07-18` };
  const usage = {
    prompt_tokens: USAGE.prompt,
    completion_tokens: USAGE.completion,
    total_tokens: USAGE.prompt + USAGE.completion,
    prompt_tokens_details: { cached_tokens: USAGE.cached },
    completion_tokens_details: { reasoning_tokens: USAGE.reasoning },
  };
  const call = { id: "call_1", type: "function", function: CALL };
  const end = asksTool ? "tool_calls" : "stop";
  if (!request.stream) {
    const said = asksTool ? { content: null, tool_calls: [call] } : { content: ANSWER };
    const choice = { index: 0, message: { role: "assistant", ...said }, finish_reason: end };
    return send(answer, 200, { ...head, object: "chat.completion", choices: [choice], usage });
  }
  const deltas = asksTool
    ? [
        { tool_calls: [{ index: 0, ...call, function: { name: CALL.name, arguments: "" } }] },
        { tool_calls: [{ index: 0, function: { arguments: CALL.arguments.slice(0, 8) } }] },
        { tool_calls: [{ index: 0, function: { arguments: CALL.arguments.slice(8) } }] },
      ]
    : words(ANSWER).map((content) => ({ content }));
  const chunk = (delta, finish) => ({
    ...head,
    object: "chat.completion.chunk",
    choices: [{ index: 0, delta, finish_reason: finish }],
  });
  const chunks = [chunk({ role: "assistant", content: "" }, null), ...deltas.map((delta) => chunk(delta, null)), chunk({}, end)];
  if (request.stream_options?.include_usage) {
    chunks.push({ ...head, object: "chat.completion.chunk", choices: [], usage });
  }
  stream(answer, [...chunks, "[DONE]"]);
}

function response(request, answer) {
  const content = [{ type: "output_text", text: ANSWER, annotations: [] }];
  const whole = {
    id: newId("resp_"),
    object: "response",
    created_at: 1_760_000_000,
    status: "completed",
    model: `${request.model}-2024-07-18`,
    output: [{ id: "msg_1", type: "message", role: "assistant", status: "completed", content }],
    usage: {
      input_tokens: USAGE.prompt,
      input_tokens_details: { cached_tokens: USAGE.cached },
      output_tokens: USAGE.completion,
      output_tokens_details: { reasoning_tokens: USAGE.reasoning },
      total_tokens: USAGE.prompt + USAGE.completion,
    },
  };
  if (!request.stream) return send(answer, 200, whole);
  const begun = { ...whole, status: "in_progress", output: [], usage: null };
  const item = { output_index: 0, item_id: "msg_1", content_index: 0 };
  const part = { type: "output_text", text: "", annotations: [] };
  stream(answer, [
    { type: "response.created", response: begun },
    { type: "response.output_item.added", output_index: 0, item: { ...whole.output[0], status: "in_progress", content: [] } },
    { type: "response.content_part.added", ...item, part },
    ...words(ANSWER).map((delta) => ({ type: "response.output_text.delta", ...item, delta })),
    { type: "response.output_text.done", ...item, text: ANSWER },
    { type: "response.content_part.done", ...item, part: content[0] },
    { type: "response.output_item.done", output_index: 0, item: whole.output[0] },
    { type: "response.completed", response: whole },
  ]);
}

function embedding(request, answer) {
  const vector = new Float32Array([0.25, 0.5, 0.75]);
  const packed = Buffer.from(vector.buffer).toString("base64");
  const texts = Array.isArray(request.input) ? request.input : [request.input];
  const data = texts.map((_, index) => ({
    object: "embedding",
    index,
    embedding: request.encoding_format === "base64" ? packed : [...vector],
  }));
  const usage = { prompt_tokens: USAGE.prompt, total_tokens: USAGE.prompt };
  send(answer, 200, { object: "list", data, model: request.model, usage });
}

/** Anthropic counts apart what a cache gave and took; here the same prompt as above, 20 of it for the cache to keep. */
function message(request, answer) {
  const results = request.messages.flatMap(({ content }) => (Array.isArray(content) ? content : []));
  const asksTool = request.tools && !results.some(({ type }) => type === "tool_result");
  const usage = {
    input_tokens: USAGE.prompt - USAGE.cached - 20,
    cache_read_input_tokens: USAGE.cached,
    cache_creation_input_tokens: 20,
    output_tokens: USAGE.completion,
  };
  const block = asksTool
    ? { type: "tool_use", id: "toolu_1", name: CALL.name, input: JSON.parse(CALL.arguments) }
    : { type: "text", text: ANSWER };
  const whole = {
    id: newId("msg_"),
    type: "message",
    role: "assistant",
    model: request.model,
    content: [block],
    stop_reason: asksTool ? "tool_use" : "end_turn",
    stop_sequence: null,
    usage,
  };
  if (!request.stream) return send(answer, 200, whole);
  const begun = { ...whole, content: [], stop_reason: null, usage: { ...usage, output_tokens: 1 } };
  const deltas = asksTool
    ? [CALL.arguments.slice(0, 8), CALL.arguments.slice(8)].map((part) => ({ type: "input_json_delta", partial_json: part }))
    : words(ANSWER).map((text) => ({ type: "text_delta", text }));
  stream(answer, [
    { type: "message_start", message: begun },
    { type: "content_block_start", index: 0, content_block: asksTool ? { ...block, input: {} } : { type: "text", text: "" } },
    ...deltas.map((delta) => ({ type: "content_block_delta", index: 0, delta })),
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: whole.stop_reason, stop_sequence: null }, usage: { output_tokens: USAGE.completion } },
    { type: "message_stop" },
  ]);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { url } = await startStubModel(Number(process.env.PORT ?? 0));
  console.log(`a stub model listens on ${url}`);
}
