import { Document } from "@langchain/core/documents";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { BaseRetriever } from "@langchain/core/retrievers";
import { RunnableLambda } from "@langchain/core/runnables";
import { tool } from "@langchain/core/tools";
import { FakeLLM, FakeStreamingChatModel } from "@langchain/core/utils/testing";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { Spindle } from "../src/index.js";
import { SpindleHandler } from "../src/langchain.js";
import { type Arrived, Reports } from "./server.js";

let reports: Reports;
let spindle: Spindle;
let callbacks: SpindleHandler[];

beforeAll(async () => {
  reports = await Reports.start();
});
afterAll(() => reports.stop());
beforeEach(() => {
  reports.arrivals.length = 0;
  spindle = new Spindle({ url: reports.url, flushIntervalMs: 3_600_000 });
  callbacks = [new SpindleHandler({ spindle })];
});
afterEach(() => spindle.close());

async function event(name: string): Promise<Arrived> {
  await spindle.flush();
  return reports.event(name);
}

const usage = {
  input_tokens: 37,
  output_tokens: 11,
  total_tokens: 48,
  input_token_details: { cache_read: 8 },
  output_token_details: { reasoning: 3 },
};

/** A model as packages of providers make them, with the usage beside its answer. */
class Model extends BaseChatModel {
  override _llmType() {
    return "test";
  }
  override async _generate() {
    const response_metadata = { model_name: "gpt-4o-mini-2024-07-18" };
    const message = new AIMessage({ content: "light rain", usage_metadata: usage, response_metadata } as object);
    return { generations: [{ text: "light rain", message }] };
  }
  override invocationParams() {
    return { model: "gpt-4o-mini", temperature: 0 };
  }
}

test("a chain of a model and a step is a tree below the run around it", async () => {
  const chain = RunnableLambda.from((city: string) => [new HumanMessage(`The weather in ${city}?`)])
    .pipe(new Model({}))
    .pipe(RunnableLambda.from((message: AIMessage) => message.content));
  const agent = spindle.agent("agent", (city: string) =>
    chain.invoke(city, { callbacks, tags: ["langchain"], metadata: { thread_id: "t-1" }, runName: "weather" }),
  );
  expect(await agent("Paris")).toBe("light rain");
  const outer = await event("agent_start");
  const root = await event("weather_start");
  expect(root).toMatchObject({ type: "chain", input: "Paris", parent_run_id: outer.run_id, thread_id: "t-1" });
  const asked = await event("Model_start");
  expect(asked).toMatchObject({ type: "llm", parent_run_id: root.run_id, tags: ["langchain"], agent: "agent" });
  expect(asked).toMatchObject({ model: "gpt-4o-mini", metadata: { temperature: 0 } });
  expect(asked.input).toEqual([{ role: "user", content: "The weather in Paris?" }]);
  expect(await event("Model_end")).toMatchObject({
    output: { role: "assistant", content: "light rain" },
    model: "gpt-4o-mini-2024-07-18",
    prompt_tokens: 37,
    completion_tokens: 11,
    total_tokens: 48,
    cached_tokens: 8,
    reasoning_tokens: 3,
  });
  expect(await event("weather_end")).toMatchObject({ output: "light rain" });
  expect(new Set(reports.events.map(({ run_id }) => run_id)).size).toBe(5);
});

/** The end of a run that this result of a model reports. */
async function told(result: object): Promise<Arrived> {
  const [handler] = callbacks as [SpindleHandler];
  reports.arrivals.length = 0;
  handler.handleLLMStart({ name: "told" }, ["hi"], "r");
  handler.handleLLMEnd(result, "r");
  return event("told_end");
}

test("several answers to one prompt that each have the usage of all cost it once", async () => {
  const answer = { message: { usage_metadata: usage } };
  const once = { prompt_tokens: 37, completion_tokens: 11, total_tokens: 48, cached_tokens: 8, reasoning_tokens: 3 };
  const several = [[answer, answer, answer]];
  expect(await told({ generations: several })).toMatchObject(once);
  const tokenUsage = { promptTokens: 40, completionTokens: 33, totalTokens: 73 };
  const beside = { prompt_tokens: 40, completion_tokens: 33, total_tokens: 73 };
  expect(await told({ generations: several, llmOutput: { tokenUsage } })).toMatchObject({ ...once, ...beside });
  expect(await told({ generations: several, llmOutput: { tokenUsage: {} } })).toMatchObject(once);
  expect(await told({ generations: [[answer]], llmOutput: { tokenUsage } })).toMatchObject(once);
  expect(await told({ generations: [[answer], [answer]] })).toMatchObject({ prompt_tokens: 74, total_tokens: 96 });
});

test("a streamed answer is one run", async () => {
  let text = "";
  for await (const chunk of await new FakeStreamingChatModel({ responses: [new AIMessage("light rain")] }).stream(
    "hi",
    { callbacks },
  ))
    text += chunk.content;
  expect(text).toBe("light rain");
  expect((await event("FakeStreamingChatModel_end")).output).toMatchObject({
    role: "assistant",
    content: "light rain",
  });
});

test("a model of texts shows its prompt and its answer", async () => {
  const llm = new FakeLLM({ response: "blue" });
  expect(await llm.invoke("The sky is", { callbacks })).toBe("blue");
  expect(await event("FakeLLM_start")).toMatchObject({ type: "llm", input: "The sky is" });
  expect(await event("FakeLLM_end")).toMatchObject({ output: "blue" });
});

test("a tool and a retriever are runs of type tool, and an error is theirs", async () => {
  const weather = tool(
    async ({ city }: { city: string }) => {
      if (city !== "Paris") throw new Error(`no station in ${city}`);
      return "light rain";
    },
    { name: "get_weather", schema: { type: "object", properties: { city: { type: "string" } } } },
  ) as unknown as RunnableLambda<{ city: string }, string>;
  expect(await weather.invoke({ city: "Paris" }, { callbacks })).toBe("light rain");
  expect(await event("get_weather_start")).toMatchObject({ type: "tool", input: '{"city":"Paris"}' });
  expect((await event("get_weather_end")).output).toBe("light rain");
  await expect(weather.invoke({ city: "Atlantis" }, { callbacks })).rejects.toThrow("no station");
  expect((await event("get_weather_error")).error.message).toBe("no station in Atlantis");

  class Shelf extends BaseRetriever {
    lc_namespace = ["tests"];
    override async _getRelevantDocuments(query: string) {
      return [new Document({ pageContent: query.toUpperCase() })];
    }
  }
  await new Shelf({}).invoke("rain", { callbacks });
  expect(await event("Shelf_start")).toMatchObject({ type: "tool", input: "rain" });
  expect(JSON.stringify((await event("Shelf_end")).output)).toContain("RAIN");
});

test("a model that fails fails its run and the chain's", async () => {
  const failing = new FakeStreamingChatModel({ thrownErrorString: "the model failed" });
  const chain = RunnableLambda.from((text: string) => text).pipe(failing);
  await expect(chain.invoke("hi", { callbacks, runName: "weather" })).rejects.toThrow("the model failed");
  expect((await event("FakeStreamingChatModel_error")).error.message).toBe("the model failed");
  expect((await event("weather_error")).error.message).toBe("the model failed");
});

test("what is not to be captured is not sent", async () => {
  const silent = [new SpindleHandler({ spindle, captureInput: false, captureOutput: false })];
  await new Model({}).invoke("a secret", { callbacks: silent });
  expect(await event("Model_start")).not.toHaveProperty("input");
  expect(await event("Model_end")).not.toHaveProperty("output");
});
