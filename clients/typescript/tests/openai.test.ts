import OpenAI from "openai";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { ANSWER, startStubModel, USAGE } from "../../../examples/typescript/stub-model.mjs";
import { Spindle } from "../src/index.js";
import { observeOpenAI } from "../src/openai.js";
import { type Arrived, Reports } from "./server.js";

let reports: Reports;
let model: { url: string; close(): Promise<unknown> };
let spindle: Spindle;
let openai: OpenAI;

beforeAll(async () => {
  [reports, model] = await Promise.all([Reports.start(), startStubModel()]);
});
afterAll(() => Promise.all([reports.stop(), model.close()]));
beforeEach(() => {
  reports.arrivals.length = 0;
  spindle = new Spindle({ url: reports.url, flushIntervalMs: 3_600_000 });
  openai = observeOpenAI(new OpenAI({ baseURL: `${model.url}/v1`, apiKey: "none", maxRetries: 0 }), { spindle });
});
afterEach(() => spindle.close());

async function event(name: string): Promise<Arrived> {
  await spindle.flush();
  return reports.event(name);
}

const question = { model: "gpt-4o-mini", messages: [{ role: "user" as const, content: "The weather in Paris?" }] };
const tools = [{ type: "function" as const, function: { name: "get_weather", parameters: { type: "object" } } }];
const tokens = {
  model: "gpt-4o-mini-2024-07-18",
  prompt_tokens: USAGE.prompt,
  completion_tokens: USAGE.completion,
  total_tokens: USAGE.prompt + USAGE.completion,
  cached_tokens: USAGE.cached,
  reasoning_tokens: USAGE.reasoning,
};

test("a completion is a run with its messages, model, parameters and tokens", async () => {
  const messages = [...question.messages];
  const answer = openai.chat.completions.create({ ...question, messages, temperature: 0 });
  messages.pop();
  expect((await answer).choices[0]?.message.content).toBe(ANSWER);
  expect(await event("openai.chat_start")).toMatchObject({
    type: "llm",
    model: "gpt-4o-mini",
    input: question.messages,
    metadata: { temperature: 0 },
  });
  expect(await event("openai.chat_end")).toMatchObject({ ...tokens, output: { role: "assistant", content: ANSWER } });
});

test("it belongs to the run around it", async () => {
  const agent = spindle.agent("agent", async () => (await openai.chat.completions.create(question)).id);
  await agent();
  const { run_id } = await event("agent_start");
  expect(await event("openai.chat_start")).toMatchObject({ parent_run_id: run_id });
});

test("withResponse works, and so does parse of the same promise, as one run", async () => {
  const promise = openai.chat.completions.create(question);
  const { data, response, request_id } = await promise.withResponse();
  expect(data.choices[0]?.message.content).toBe(ANSWER);
  expect(response.status).toBe(200);
  expect(request_id).toBe("req_stub");
  expect(await promise).toBe(data);
  expect(await event("openai.chat_end")).toMatchObject(tokens);
});

test("who asks for the raw response reads it alone, and the run ends", async () => {
  const response = await openai.chat.completions.create(question).asResponse();
  expect(await response.json()).toMatchObject({ object: "chat.completion" });
  expect((await event("openai.chat_end")).output).toContain("reads itself");
});

test("a tool call is seen, at once and streamed", async () => {
  await openai.chat.completions.create({ ...question, tools });
  const call = { id: "call_1", type: "function", function: { name: "get_weather", arguments: '{"city":"Paris"}' } };
  expect((await event("openai.chat_end")).output).toMatchObject({ content: null, tool_calls: [call] });
  reports.arrivals.length = 0;
  for await (const _ of await openai.chat.completions.create({ ...question, tools, stream: true })) {
    // Only read.
  }
  expect((await event("openai.chat_end")).output).toMatchObject({ content: null, tool_calls: [call] });
});

test("a streamed completion is put together, with the usage of its last chunk", async () => {
  const stream = await openai.chat.completions.create({
    ...question,
    stream: true,
    stream_options: { include_usage: true },
  });
  expect(stream.controller).toBeInstanceOf(AbortController);
  let text = "";
  for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
  expect(text).toBe(ANSWER);
  expect(await event("openai.chat_end")).toMatchObject({ ...tokens, output: { role: "assistant", content: ANSWER } });
});

test("tokens are known also where outputs are not to be seen", async () => {
  const client = new OpenAI({ baseURL: `${model.url}/v1`, apiKey: "none" });
  const silent = observeOpenAI(client, { spindle, captureInput: false, captureOutput: false });
  const stream_options = { include_usage: true };
  for await (const _ of await silent.chat.completions.create({ ...question, stream: true, stream_options })) {
    // Only read.
  }
  expect(await event("openai.chat_start")).not.toHaveProperty("input");
  const end = await event("openai.chat_end");
  expect(end).toMatchObject(tokens);
  expect(end).not.toHaveProperty("output");
});

test("a stream that is left early ends its run with what there was", async () => {
  for await (const chunk of await openai.chat.completions.create({ ...question, stream: true })) {
    if (chunk.choices[0]?.delta.content) break;
  }
  expect((await event("openai.chat_end")).output).toEqual({ role: "assistant", content: "Paris " });
});

test("tee and toReadableStream of a stream work", async () => {
  const stream = await openai.chat.completions.create({ ...question, stream: true });
  const [left, right] = stream.tee();
  const read = async (part: AsyncIterable<OpenAI.ChatCompletionChunk>) => {
    let text = "";
    for await (const chunk of part) text += chunk.choices[0]?.delta.content ?? "";
    return text;
  };
  expect(await Promise.all([read(left), read(right)])).toEqual([ANSWER, ANSWER]);
  expect((await event("openai.chat_end")).output).toMatchObject({ content: ANSWER });
  reports.arrivals.length = 0;
  const readable = (await openai.chat.completions.create({ ...question, stream: true })).toReadableStream();
  expect(await new Response(readable).text()).toContain("Paris ");
  expect((await event("openai.chat_end")).output).toMatchObject({ content: ANSWER });
});

test("the helpers of the package go the same way: stream and parse", async () => {
  const helper = openai.chat.completions.stream({ ...question, stream_options: { include_usage: true } });
  expect(await helper.finalContent()).toBe(ANSWER);
  expect(await event("openai.chat_end")).toMatchObject({ ...tokens, output: { content: ANSWER } });
  reports.arrivals.length = 0;
  const parsed = await openai.chat.completions.parse(question);
  expect(parsed.choices[0]?.message.content).toBe(ANSWER);
  expect(await event("openai.chat_end")).toMatchObject({ ...tokens, output: { content: ANSWER } });
});

test("an error is the application's, unchanged, and the run's", async () => {
  const failing = { ...question, messages: [{ role: "user" as const, content: "FAIL" }] };
  const error = await openai.chat.completions.create(failing).catch((error) => error);
  expect(error).toBeInstanceOf(OpenAI.BadRequestError);
  expect((await event("openai.chat_error")).error).toMatchObject({
    message: expect.stringContaining("the model failed"),
  });
});

test("the Responses API, at once and streamed", async () => {
  const ask = { model: "gpt-4o-mini", instructions: "Be brief.", input: "The weather in Paris?" };
  expect((await openai.responses.create(ask)).output_text).toBe(ANSWER);
  expect(await event("openai.responses_start")).toMatchObject({
    input: [
      { role: "system", content: "Be brief." },
      { role: "user", content: ask.input },
    ],
  });
  const whole = await event("openai.responses_end");
  expect(whole).toMatchObject(tokens);
  expect(JSON.stringify(whole.output)).toContain(ANSWER);
  reports.arrivals.length = 0;
  const kinds: string[] = [];
  for await (const { type } of await openai.responses.create({ ...ask, stream: true })) kinds.push(type);
  expect(kinds.at(-1)).toBe("response.completed");
  const streamed = await event("openai.responses_end");
  expect(streamed).toMatchObject(tokens);
  expect(streamed.output).toEqual(whole.output);
  reports.arrivals.length = 0;
  const helper = openai.responses.stream(ask);
  expect((await helper.finalResponse()).output_text).toBe(ANSWER);
  expect(await event("openai.responses_end")).toMatchObject(tokens);
});

test("embeddings show how many vectors there were and what they cost", async () => {
  const { data } = await openai.embeddings.create({ model: "text-embedding-3-small", input: ["a", "b"] });
  expect(data[0]?.embedding).toEqual([0.25, 0.5, 0.75]);
  expect(await event("openai.embeddings_start")).toMatchObject({ input: ["a", "b"], model: "text-embedding-3-small" });
  expect(await event("openai.embeddings_end")).toMatchObject({
    output: { vectors: 2, dimensions: 3 },
    prompt_tokens: USAGE.prompt,
    completion_tokens: 0,
  });
});

test("to observe twice is to observe once, and what a client lacks is left alone", async () => {
  observeOpenAI(openai, { spindle });
  await openai.chat.completions.create(question);
  expect((await event("openai.chat_end")).type).toBe("llm");
  const other = { chat: { completions: {} } };
  expect(observeOpenAI(other)).toBe(other);
});
