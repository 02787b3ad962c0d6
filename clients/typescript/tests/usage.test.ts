import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { Spindle } from "../src/index.js";
import { SpindleHandler } from "../src/langchain.js";
import { CLIENT_KEY, NAME } from "../src/version.js";
import { type Arrived, Reports } from "./server.js";

let reports: Reports;
let spindle: Spindle;
/** What the clock says, milliseconds. */
let clock = 0;

beforeAll(async () => {
  reports = await Reports.start();
});
afterAll(() => reports.stop());
beforeEach(() => {
  reports.arrivals.length = 0;
  clock = 5_000;
  vi.spyOn(performance, "now").mockImplementation(() => clock);
  spindle = new Spindle({ url: reports.url, flushIntervalMs: 3_600_000, warn: () => {} });
});
afterEach(() => {
  vi.restoreAllMocks();
  return spindle.close();
});

async function event(name: string): Promise<Arrived> {
  await spindle.flush();
  return reports.event(name);
}

test("the time to the first token is that of the first call, and a number of the application's own counts more", async () => {
  const run = spindle.start("llm", { name: "measured" });
  clock += 250.4;
  run.firstToken();
  clock += 1_000;
  run.firstToken();
  run.end();
  const told = spindle.start("llm", { name: "told" });
  told.firstToken();
  told.end("", { ttftMs: 12.6 });
  spindle.start("llm", { name: "silent" }).end();
  expect(await event("measured_end")).toMatchObject({ ttft_ms: 250 });
  expect(await event("told_end")).toMatchObject({ ttft_ms: 13 });
  expect(await event("silent_end")).not.toHaveProperty("ttft_ms");
});

test("a stream of a model call measures it, and one of another step does not", async () => {
  async function* words() {
    clock += 40;
    yield "light ";
    clock += 40;
    yield "rain";
  }
  for (const type of ["llm", "chain"] as const) {
    for await (const _ of spindle[type](type, words)()) {
      // Only read.
    }
  }
  expect(await event("llm_end")).toMatchObject({ ttft_ms: 40, output: "light rain" });
  expect(await event("chain_end")).not.toHaveProperty("ttft_ms");
});

test("a model below LangChain measures it, from the first piece that says something", async () => {
  const handler = new SpindleHandler({ spindle });
  handler.handleLLMStart({ name: "model" }, ["hi"], "r1");
  clock += 10;
  handler.handleLLMNewToken("", {}, "r1");
  clock += 10;
  handler.handleLLMNewToken("", {}, "r1", undefined, undefined, { chunk: { message: { tool_call_chunks: [{}] } } });
  clock += 10;
  handler.handleLLMNewToken("rain", {}, "r1");
  handler.handleLLMNewToken("rain", {}, "unknown");
  handler.handleLLMEnd({ generations: [[{ text: "rain" }]] }, "r1");
  expect(await event("model_end")).toMatchObject({ ttft_ms: 20 });
});

test("metadata may be added until the end, and what cannot be read is left out", async () => {
  const run = spindle.start("tool", { name: "tool", metadata: { a: 1, b: 1 } });
  run.metadata({ b: 2 });
  run.metadata({ c: 3 });
  run.metadata("no object" as never);
  run.end();
  run.metadata({ d: 4 });
  expect((await event("tool_start")).metadata).toEqual({ [CLIENT_KEY]: NAME, a: 1, b: 1 });
  expect((await event("tool_end")).metadata).toEqual({ b: 2, c: 3 });
});

test("runs without a parent say which library reports them, and others do not", async () => {
  const outer = spindle.start("agent", { name: "outer" });
  spindle.start("tool", { name: "inner", parent: outer, metadata: { a: 1 } }).end();
  spindle.start("tool", { name: "remote", parent: "elsewhere" }).end();
  spindle.start("tool", { name: "own", metadata: { [CLIENT_KEY]: "mine" } }).end();
  outer.end();
  expect((await event("outer_start")).metadata).toEqual({ [CLIENT_KEY]: NAME });
  expect((await event("inner_start")).metadata).toEqual({ a: 1 });
  expect(await event("remote_start")).not.toHaveProperty("metadata");
  expect((await event("own_start")).metadata).toEqual({ [CLIENT_KEY]: "mine" });
});

test("flushAfterRuns waits for the runs that are open, then sends everything", async () => {
  const run = spindle.start("agent", { name: "slow" });
  const flushed = spindle.flushAfterRuns();
  await spindle.flush();
  expect(reports.events).toHaveLength(1);
  const second = spindle.start("tool", { name: "late" });
  run.end();
  second.end();
  second.end();
  expect(await flushed).toBe(true);
  expect(reports.events.map(({ name }) => name)).toEqual(["slow_start", "late_start", "slow_end", "late_end"]);
  expect(await spindle.flushAfterRuns()).toBe(true);
});

test("flushAfterRuns gives up on runs that never end, and sends what there is", async () => {
  spindle.start("agent", { name: "lost" });
  expect(await spindle.flushAfterRuns(20)).toBe(true);
  expect(reports.events.map(({ name }) => name)).toEqual(["lost_start"]);
});
