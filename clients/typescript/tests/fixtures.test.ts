/**
 * The cases of `clients/fixtures`: what an application asks, what a provider answers, and the run that becomes of it.
 *
 * The Python library runs the same cases.
 */

import { readdirSync, readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { resolve } from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage, HumanMessage, SystemMessage } from "@langchain/core/messages";
import OpenAI from "openai";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { observeAnthropic } from "../src/anthropic.js";
import { Spindle, type Usage } from "../src/index.js";
import { SpindleHandler } from "../src/langchain.js";
import { observeOpenAI } from "../src/openai.js";
import { CLIENT_KEY, NAME } from "../src/version.js";
import { type Arrived, Reports } from "./server.js";

type Case = Record<string, any>;

const FOLDER = resolve(import.meta.dirname, "../../fixtures");
const CASES: Case[] = readdirSync(FOLDER)
  .filter((file) => file.endsWith(".json"))
  .flatMap((file) => JSON.parse(readFileSync(resolve(FOLDER, file), "utf8")));

let reports: Reports;
let provider: Server;
let url: string;
let answering: Case;
let spindle: Spindle;

beforeAll(async () => {
  reports = await Reports.start();
  provider = createServer((request, response) => {
    const isStream = answering.stream !== undefined;
    request.resume().on("end", () => {
      response.writeHead(200, { "content-type": isStream ? "text/event-stream" : "application/json" });
      if (!isStream) return response.end(JSON.stringify(answering.response));
      for (const event of answering.stream) {
        if (event.type) response.write(`event: ${event.type}\n`);
        response.write(`data: ${typeof event === "string" ? event : JSON.stringify(event)}\n\n`);
      }
      return response.end();
    });
  });
  await new Promise<void>((listening) => provider.listen(0, "127.0.0.1", listening));
  url = `http://127.0.0.1:${(provider.address() as AddressInfo).port}`;
});
afterAll(() => {
  provider.closeAllConnections();
  provider.close();
  return reports.stop();
});
beforeEach(() => {
  reports.arrivals.length = 0;
  spindle = new Spindle({ url: reports.url, flushIntervalMs: 3_600_000 });
});
afterEach(() => spindle.close());

/** A chat model that answers with the message of the case. */
class FixtureModel extends BaseChatModel {
  constructor(private readonly answer: Case) {
    super({});
  }

  _llmType() {
    return "fixture";
  }

  override invocationParams() {
    return { model: "asked-1" };
  }

  async _generate() {
    const message = new AIMessage(this.answer as ConstructorParameters<typeof AIMessage>[0]);
    return { generations: [{ text: String(message.content), message }] };
  }
}

/** The names of the event's fields as this library has them. */
function camel(usage: Case): Usage {
  const rename = (name: string) => name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
  return Object.fromEntries(Object.entries(usage).map(([name, value]) => [rename(name), value]));
}

/** Calls the method of the case, and reads its stream. */
async function ask({ call, request, stream, messages, message, usage, response_id }: Case) {
  if (call === "usage") {
    spindle.start("llm", { name: "ask" }).end(undefined, { ...camel(usage), responseId: response_id });
    return;
  }
  if (call === "langchain") {
    const kinds: Record<string, typeof HumanMessage | typeof SystemMessage> = {
      system: SystemMessage,
      human: HumanMessage,
    };
    const asked = messages.map(({ type, content }: Case) => new (kinds[type] as typeof HumanMessage)(content));
    await new FixtureModel(message).invoke(asked, { callbacks: [new SpindleHandler({ spindle })] });
    return;
  }
  const openai = observeOpenAI(new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 }), { spindle });
  const anthropic = observeAnthropic(new Anthropic({ baseURL: url, apiKey: "none", maxRetries: 0 }), { spindle });
  const methods: Record<string, { create(request: unknown): PromiseLike<unknown> }> = {
    "openai.chat.completions": openai.chat.completions as any,
    "openai.responses": openai.responses as any,
    "openai.embeddings": openai.embeddings as any,
    "anthropic.messages": anthropic.messages as any,
  };
  const answer = await methods[call]?.create(request);
  if (stream === undefined) return;
  for await (const _ of answer as AsyncIterable<unknown>) {
    // Only read.
  }
}

/** Fields of events that say nothing of the case, or are compared in another way. */
const OWN = new Set(["name", "run_id", "event_id", "timestamp", "metadata", "error"]);

/** Both events of a run as one. */
function runOf(events: Arrived[]): Case {
  expect(events).toHaveLength(2);
  const [begin, end] = events as [Arrived, Arrived];
  expect(begin.run_id).toBe(end.run_id);
  const name = begin.name.replace(/_start$/, "");
  expect(end.name).toBe(`${name}_${end.error ? "error" : "end"}`);
  const fields = Object.entries({ ...begin, ...end }).filter(([field]) => !OWN.has(field));
  const { [CLIENT_KEY]: client, ...metadata } = { ...begin.metadata, ...end.metadata };
  expect(client).toBe(NAME);
  return {
    name,
    ...Object.fromEntries(fields),
    ...(Object.keys(metadata).length > 0 ? { metadata } : {}),
    ...(end.error ? { error: end.error.message } : {}),
  };
}

test.each(CASES.map((one) => [one.name, one] as const))("%s", async (_, one) => {
  answering = one;
  await ask(one);
  await spindle.flush();
  const run = runOf(reports.events);
  if (one.run.ttft_ms === "measured") {
    expect(Number.isInteger(run.ttft_ms) && run.ttft_ms >= 0).toBe(true);
    run.ttft_ms = "measured";
  }
  expect(run).toEqual(one.run);
});
