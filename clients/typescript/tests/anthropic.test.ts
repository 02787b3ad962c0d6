import Anthropic from "@anthropic-ai/sdk";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { ANSWER, startStubModel, USAGE } from "../../../examples/typescript/stub-model.mjs";
import { observeAnthropic } from "../src/anthropic.js";
import { Spindle } from "../src/index.js";
import { type Arrived, Reports } from "./server.js";

let reports: Reports;
let model: { url: string; close(): Promise<unknown> };
let spindle: Spindle;
let anthropic: Anthropic;

beforeAll(async () => {
  [reports, model] = await Promise.all([Reports.start(), startStubModel()]);
});
afterAll(() => Promise.all([reports.stop(), model.close()]));
beforeEach(() => {
  reports.arrivals.length = 0;
  spindle = new Spindle({ url: reports.url, flushIntervalMs: 3_600_000 });
  anthropic = observeAnthropic(new Anthropic({ baseURL: model.url, apiKey: "none", maxRetries: 0 }), { spindle });
});
afterEach(() => spindle.close());

async function event(name: string): Promise<Arrived> {
  await spindle.flush();
  return reports.event(name);
}

const question = {
  model: "claude-stub-1",
  max_tokens: 100,
  messages: [{ role: "user" as const, content: "The weather in Paris?" }],
};
const tools = [{ name: "get_weather", input_schema: { type: "object" as const } }];
/** The whole prompt, not only what no cache was asked for. */
const tokens = {
  model: "claude-stub-1",
  prompt_tokens: USAGE.prompt,
  completion_tokens: USAGE.completion,
  cached_tokens: USAGE.cached,
};

test("a message is a run with its prompt, parameters, answer and all tokens of the prompt", async () => {
  const answer = await anthropic.messages.create({ ...question, system: "Be brief." });
  expect(answer.usage.input_tokens).toBe(USAGE.prompt - USAGE.cached - 20);
  expect(await event("anthropic.messages_start")).toMatchObject({
    type: "llm",
    model: "claude-stub-1",
    input: [{ role: "system", content: "Be brief." }, ...question.messages],
    metadata: { max_tokens: 100 },
  });
  expect(await event("anthropic.messages_end")).toMatchObject({
    ...tokens,
    output: { role: "assistant", content: ANSWER },
    metadata: { finish_reason: "end_turn" },
  });
});

test("a streamed message is put together", async () => {
  const kinds: string[] = [];
  for await (const { type } of await anthropic.messages.create({ ...question, stream: true })) kinds.push(type);
  expect(kinds.at(-1)).toBe("message_stop");
  expect(await event("anthropic.messages_end")).toMatchObject({
    ...tokens,
    output: { role: "assistant", content: ANSWER },
    metadata: { finish_reason: "end_turn" },
  });
});

test("a streamed tool call has its input as a value", async () => {
  for await (const _ of await anthropic.messages.create({ ...question, tools, stream: true })) {
    // Only read.
  }
  const content = [{ type: "tool_use", id: "toolu_1", name: "get_weather", input: { city: "Paris" } }];
  expect((await event("anthropic.messages_end")).output).toEqual({ role: "assistant", content });
});

test("the helper messages.stream is one run, and works as before", async () => {
  const texts: string[] = [];
  const helper = anthropic.messages.stream(question).on("text", (text) => texts.push(text));
  const final = await helper.finalMessage();
  expect(final.content).toMatchObject([{ type: "text", text: ANSWER }]);
  expect(texts.join("")).toBe(ANSWER);
  expect(await event("anthropic.messages_end")).toMatchObject(tokens);
});

test("a helper that a function answers ends its run, iterated or not", async () => {
  const plain = new Anthropic({ baseURL: model.url, apiKey: "none", maxRetries: 0 });
  const ask = spindle.llm("ask", () => plain.messages.stream(question));
  const awaited = ask();
  await awaited.finalMessage();
  await awaited.done();
  expect((await event("ask_end")).type).toBe("llm");
  reports.arrivals.length = 0;
  const kinds: string[] = [];
  for await (const { type } of ask()) kinds.push(type);
  expect((await event("ask_end")).output.map(({ type }: { type: string }) => type)).toEqual(kinds);
});

test("a stream that is left early ends its run, with the tokens known by then", async () => {
  for await (const event of await anthropic.messages.create({ ...question, stream: true })) {
    if (event.type === "content_block_delta") break;
  }
  const end = await event("anthropic.messages_end");
  expect(end.output.content).toBe("Paris ");
  expect(end).toMatchObject({ prompt_tokens: USAGE.prompt, completion_tokens: 1 });
});

test("withResponse works, and the beta's messages too", async () => {
  const { data, response } = await anthropic.messages.create(question).withResponse();
  expect(data.content).toHaveLength(1);
  expect(response.headers.get("request-id")).toBe("req_stub");
  expect(await event("anthropic.messages_end")).toMatchObject(tokens);
  reports.arrivals.length = 0;
  await anthropic.beta.messages.create(question);
  expect(await event("anthropic.messages_end")).toMatchObject(tokens);
});

test("an error is the application's, unchanged, and the run's", async () => {
  const failing = { ...question, messages: [{ role: "user" as const, content: "FAIL" }] };
  await expect(anthropic.messages.create(failing)).rejects.toBeInstanceOf(Anthropic.BadRequestError);
  expect((await event("anthropic.messages_error")).error.message).toContain("the model failed");
});
