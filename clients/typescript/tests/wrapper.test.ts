import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { Spindle } from "../src/index.js";
import { type Arrived, Reports } from "./server.js";

let reports: Reports;
let spindle: Spindle;

beforeAll(async () => {
  reports = await Reports.start();
});
afterAll(() => reports.stop());
beforeEach(() => {
  reports.arrivals.length = 0;
  spindle = new Spindle({ url: reports.url, flushIntervalMs: 3_600_000, warn: () => {} });
});
afterEach(() => spindle.close());

async function event(name: string): Promise<Arrived> {
  await spindle.flush();
  return reports.event(name);
}

test("a function keeps its result, this, arguments, name and length", async () => {
  class Adder {
    base = 10;
    add = spindle.tool("add", function add(this: Adder, a: number, b: number) {
      return this.base + a + b;
    });
  }
  const adder = new Adder();
  expect(adder.add(1, 2)).toBe(13);
  expect(adder.add.name).toBe("add");
  expect(adder.add.length).toBe(2);
  expect(await event("add_start")).toMatchObject({ type: "tool", input: [1, 2] });
  const end = await event("add_end");
  expect(end).toMatchObject({ type: "tool", output: 13 });
  expect(end.run_id).toBe((await event("add_start")).run_id);
});

test("an error comes through as the same object, and the run fails with it", async () => {
  const error = new RangeError("too far");
  const fail = spindle.chain("walk", () => {
    throw error;
  });
  expect(fail).toThrow(error);
  const reported = await event("walk_error");
  expect(reported.error).toMatchObject({ name: "RangeError", message: "too far" });
  expect(reported.error.stack).toContain("wrapper.test");
});

test("a promise resolves and rejects as before", async () => {
  const ok = spindle.agent("ok", async (q: string) => `${q}!`);
  const bad = spindle.agent("bad", async () => {
    throw "a text";
  });
  expect(await ok("hi")).toBe("hi!");
  await expect(bad()).rejects.toBe("a text");
  expect(await event("ok_end")).toMatchObject({ output: "hi!" });
  expect((await event("bad_error")).error).toEqual({ name: "Error", message: "a text" });
});

test("an unhandled rejection stays unhandled", async () => {
  const seen: unknown[] = [];
  const others = process.listeners("unhandledRejection");
  process.removeAllListeners("unhandledRejection");
  const heard = new Promise<void>((done) => {
    process.once("unhandledRejection", (reason) => {
      seen.push(reason);
      done();
    });
  });
  void spindle.agent("forgotten", async () => {
    throw new Error("not handled");
  })();
  await heard;
  for (const other of others) process.on("unhandledRejection", other as never);
  expect(seen).toEqual([expect.objectContaining({ message: "not handled" })]);
});

test("a thenable that works only when asked is asked once, by the application", async () => {
  let asked = 0;
  const query = {
    sql: "select 1",
    // biome-ignore lint/suspicious/noThenProperty: such objects exist
    then(resolve: (rows: number[]) => void) {
      asked++;
      resolve([1]);
    },
  };
  const run = spindle.tool("query", () => query as unknown as PromiseLike<number[]> & { sql: string });
  const result = run();
  expect(result).toBe(query);
  expect(result.sql).toBe("select 1");
  expect(asked).toBe(0);
  expect(await result).toEqual([1]);
  expect(await result).toEqual([1]);
  expect(asked).toBe(1);
  expect(await event("query_end")).toMatchObject({ output: [1] });
});

test("a generator ends its run when it is done, with its pieces", async () => {
  const count = spindle.llm("count", function* (to: number) {
    for (let at = 1; at <= to; at++) yield `${at} `;
    return "ignored";
  });
  expect([...count(3)]).toEqual(["1 ", "2 ", "3 "]);
  expect(await event("count_end")).toMatchObject({ output: "1 2 3 " });
});

test("a generator that is given up ends its run with what there was, and still cleans up", async () => {
  let cleaned = false;
  const count = spindle.llm("count", async function* () {
    try {
      for (let at = 1; ; at++) yield { at };
    } finally {
      cleaned = true;
    }
  });
  for await (const { at } of count()) if (at === 2) break;
  expect(cleaned).toBe(true);
  expect(await event("count_end")).toMatchObject({ output: [{ at: 1 }, { at: 2 }] });
});

test("a generator that fails fails its run, with what there was", async () => {
  const speak = spindle.llm("speak", async function* () {
    yield "half a ";
    throw new Error("cut off");
  });
  const heard: string[] = [];
  await expect(
    (async () => {
      for await (const word of speak()) heard.push(word);
    })(),
  ).rejects.toThrow("cut off");
  expect(heard).toEqual(["half a "]);
  expect(await event("speak_error")).toMatchObject({ output: "half a ", error: { message: "cut off" } });
});

test("what runs inside a generator belongs to it, whichever code requests the next piece", async () => {
  const inner = spindle.tool("inner", () => 1);
  const outer = spindle.agent("outer", function* () {
    yield inner();
  });
  const elsewhere = spindle.chain("elsewhere", (pieces: Iterator<number>) => pieces.next().value);
  elsewhere(outer());
  const { run_id } = await event("outer_start");
  expect(await event("inner_start")).toMatchObject({ parent_run_id: run_id });
});

test("a web stream ends its run at its end, when it is cancelled and when it fails", async () => {
  const words = ["a", "b", "c"];
  const source = (pull: (controller: ReadableStreamDefaultController<string>, at: number) => void) => {
    let at = 0;
    return new ReadableStream<string>({ pull: (controller) => pull(controller, at++) });
  };
  const whole = spindle.llm("whole", () =>
    source((controller, at) => (at < 3 ? controller.enqueue(words[at]) : controller.close())),
  );
  let text = "";
  for await (const word of whole() as unknown as AsyncIterable<string>) text += word;
  expect(text).toBe("abc");
  expect(await event("whole_end")).toMatchObject({ output: "abc" });

  const cancelled = spindle.llm("cancelled", () => source((controller) => controller.enqueue("x")));
  const reader = cancelled().getReader();
  await reader.read();
  await reader.cancel();
  expect(await event("cancelled_end")).toMatchObject({ output: "x" });

  const failing = spindle.llm("failing", async () =>
    source((controller, at) => (at < 1 ? controller.enqueue("x") : controller.error(new Error("torn")))),
  );
  const torn = (await failing()).getReader();
  await torn.read();
  await expect(torn.read()).rejects.toThrow("torn");
  expect(await event("failing_error")).toMatchObject({ output: "x", error: { message: "torn" } });
});

test("a stream of Node ends its run however it is read", async () => {
  const iterated = spindle.llm("iterated", () => Readable.from(["a", "b"]));
  const pieces: string[] = [];
  for await (const piece of iterated()) pieces.push(piece);
  expect(pieces).toEqual(["a", "b"]);
  expect(await event("iterated_end")).toMatchObject({ output: "ab" });
  const flowing = spindle.llm("flowing", () => Readable.from(["a", "b"]));
  await new Promise((closed) => flowing().on("close", closed).resume());
  expect((await event("flowing_end")).type).toBe("llm");
});

test("a page of a list can be iterated, but is a value: its run ends with it", async () => {
  const page = {
    data: [1, 2],
    async *[Symbol.asyncIterator]() {
      yield* this.data;
    },
  };
  const list = spindle.tool("list", async () => page);
  const answer = await list();
  expect(answer).toBe(page);
  expect(await event("list_end")).toMatchObject({ output: { data: [1, 2] } });
  const seen: number[] = [];
  for await (const item of answer) seen.push(item);
  expect(seen).toEqual([1, 2]);
});

test("a promise keeps the methods and fields that were put on it", async () => {
  let cancelled = "";
  const own = {
    id: 7,
    cancel(why: string) {
      cancelled = `${why} ${this.id}`;
    },
    *[Symbol.iterator]() {
      yield 1;
    },
  };
  const job = spindle.tool("job", () => Object.assign(Promise.resolve("done"), own))();
  job.cancel("late");
  expect(cancelled).toBe("late 7");
  expect([...job]).toEqual([1]);
  expect(await job).toBe("done");
  expect(await event("job_end")).toMatchObject({ output: "done" });
});

test("runs nest across awaits, timers and calls side by side", async () => {
  const leaf = spindle.tool("leaf", async (name: string) => {
    await new Promise((wake) => setTimeout(wake, 1));
    return spindle.llm(`under-${name}`, () => name)();
  });
  const agent = spindle.agent("agent", (name: string) => Promise.all([leaf(`${name}1`), leaf(`${name}2`)]));
  await Promise.all([agent("a"), agent("b")]);
  await spindle.flush();
  const starts = reports.events.filter((one) => one.name.endsWith("_start"));
  const byId = new Map(starts.map((one) => [one.run_id, one]));
  for (const one of starts.filter(({ type }) => type === "llm")) {
    const tool = byId.get(one.parent_run_id);
    expect(tool?.input).toBe(one.name.replace(/^under-|_start$/g, ""));
    expect(byId.get(tool?.parent_run_id)?.input).toBe(tool?.input[0]);
    expect(one.agent).toBe("agent");
  }
  expect(starts.filter(({ type }) => type === "agent").every(({ parent_run_id }) => parent_run_id === undefined)).toBe(
    true,
  );
});

test("tags, user and conversation are inherited, and end where they end", async () => {
  await spindle.withUser("ada@example.com", () =>
    spindle.withThread("t1", () =>
      spindle.withTags(["a"], async () => {
        await spindle.agent("inside", async () => {
          await null;
          spindle.tool("deeper", () => 1, { tags: ["b", "a"] })();
          spindle.chat({ role: "assistant", content: "hi" });
        })();
      }),
    ),
  );
  spindle.tool("outside", () => 1)();
  const about = { user_email: "ada@example.com", thread_id: "t1", agent: "inside" };
  expect(await event("inside_start")).toMatchObject({ ...about, tags: ["a"] });
  expect(await event("deeper_start")).toMatchObject({ ...about, tags: ["a", "b"] });
  expect(await event("chat")).toMatchObject({ ...about, run_id: (await event("inside_start")).run_id });
  const outside = await event("outside_start");
  expect(outside.tags ?? outside.user_email ?? outside.thread_id).toBeUndefined();
});

test("a run by hand ends once, with the usage said so far, and holds what runs within it", async () => {
  const run = spindle.start("llm", { name: "draft", model: "gpt-4o-mini", input: { a: 1 }, metadata: { k: "v" } });
  expect(spindle.currentRun()).toBeUndefined();
  expect(run.within(() => spindle.currentRun())).toBe(run);
  run.within(spindle.tool("look", () => 1));
  run.usage({ promptTokens: 5 });
  run.usage({ completionTokens: 2, cachedTokens: -1, reasoningTokens: Number.NaN });
  run.end("done", { model: "gpt-4o-mini-2024" });
  run.fail(new Error("too late"));
  expect(await event("draft_start")).toMatchObject({ model: "gpt-4o-mini", metadata: { k: "v" }, input: { a: 1 } });
  const end = await event("draft_end");
  expect(end).toMatchObject({ output: "done", prompt_tokens: 5, completion_tokens: 2, model: "gpt-4o-mini-2024" });
  expect(end).not.toHaveProperty("cached_tokens");
  expect(end).not.toHaveProperty("reasoning_tokens");
  expect(await event("look_start")).toMatchObject({ parent_run_id: run.id });
  expect(reports.events.some(({ name }) => name === "draft_error")).toBe(false);
});

test("a parent may be given as a run, as an id, or as none", async () => {
  const parent = spindle.start("agent", { name: "parent", tags: ["p"], thread: "t" });
  spindle.start("tool", { name: "by-run", parent });
  spindle.start("tool", { name: "by-id", parent: "somewhere-else" });
  parent.within(() => spindle.start("tool", { name: "root", parent: null }));
  expect(await event("by-run_start")).toMatchObject({ parent_run_id: parent.id, tags: ["p"], thread_id: "t" });
  expect(await event("by-id_start")).toMatchObject({ parent_run_id: "somewhere-else" });
  expect(await event("root_start")).not.toHaveProperty("parent_run_id");
});

test("usage, input and output may be read from a call, and their failures have no effect", async () => {
  const call = spindle.llm("call", async (secret: string, question: string) => ({ text: `${question}?`, secret }), {
    model: "m",
    input: (_, question) => ({ question }),
    output: ({ text }) => text,
    usage: () => ({ promptTokens: 3, completionTokens: 4 }),
  });
  await call("s", "why");
  expect(await event("call_start")).toMatchObject({ input: { question: "why" }, model: "m" });
  expect(await event("call_end")).toMatchObject({ output: "why?", prompt_tokens: 3, completion_tokens: 4 });
  const broken = spindle.llm("broken", () => 7, {
    input: () => {
      throw new Error("no");
    },
    output: () => {
      throw new Error("no");
    },
  });
  expect(broken()).toBe(7);
  expect((await event("broken_start")).input).toContain("unreadable");
  expect((await event("broken_end")).run_id).toBe((await event("broken_start")).run_id);
});

test("what is not to be captured is not sent", async () => {
  spindle.tool("half", (secret: string) => secret, { captureInput: false })("s1");
  spindle.tool("other", (secret: string) => secret, { captureOutput: false })("s2");
  expect(await event("half_start")).not.toHaveProperty("input");
  expect(await event("half_end")).toMatchObject({ output: "s1" });
  expect(await event("other_end")).not.toHaveProperty("output");
  const silent = new Spindle({ url: reports.url, captureInput: false, captureOutput: false });
  silent.agent("silent", function* (secret: string) {
    yield secret;
  })("s3");
  await silent.close();
  expect(JSON.stringify(reports.events)).not.toContain("s3");
});

test("names are cut to what the server takes, and an empty one is the type", async () => {
  spindle.tool("é".repeat(400), () => 1)();
  spindle.start("chain", { name: "  " });
  await spindle.flush();
  const [long] = reports.events;
  expect(long?.name).toMatch(/^é+_start$/);
  expect(Buffer.byteLength(long?.name ?? "")).toBeLessThanOrEqual(512);
  expect(reports.events.at(-1)?.name).toBe("chain_start");
});

test("ids are cut to what the server takes, and different ones stay different", async () => {
  const id = "é".repeat(200);
  const run = spindle.start("agent", { name: "long", runId: `${id}1`, thread: `${id}t` });
  spindle.start("tool", { name: "child", parent: `${id}1` });
  spindle.start("tool", { name: "other", runId: `${id}2` });
  spindle.saved(`${id}1`);
  expect(spindle.chat({ role: "user", content: "q", run: `${id}1`, thread: `${id}t` })).toBe(run.id);
  const start = await event("long_start");
  // As the Python library does it, so that both speak of the same run.
  expect(start.run_id).toBe(`${"é".repeat(108)}…${createHash("sha256").update(`${id}1`).digest("hex").slice(0, 32)}`);
  expect((await event("child_start")).parent_run_id).toBe(start.run_id);
  expect((await event("other_start")).run_id).not.toBe(start.run_id);
  expect((await event("saved")).run_id).toBe(start.run_id);
  expect((await event("chat")).thread_id).toBe(start.thread_id);
  for (const one of reports.events) expect(Buffer.byteLength(one.run_id)).toBeLessThanOrEqual(256);
  expect(Buffer.byteLength(start.thread_id)).toBeLessThanOrEqual(256);
});

test("a mark without a run is logged, and nothing is sent", async () => {
  const warnings: string[] = [];
  const telling = new Spindle({ url: reports.url, warn: (message) => warnings.push(message) });
  for (const mark of ["feedback", "saved", "unsaved"] as const) telling[mark](undefined as never, "positive");
  telling.saved("");
  expect(await telling.close()).toBe(true);
  expect(reports.arrivals).toEqual([]);
  expect(telling.stats().queued).toBe(0);
  expect(warnings).toEqual([expect.stringContaining("feedback was given no id")]);
});

test("what throws when it is read is left out", async () => {
  const throwing = {
    promptTokens: 3,
    get completionTokens(): number {
      throw new Error("no");
    },
    get content(): string {
      throw new Error("no");
    },
    get id(): string {
      throw new Error("no");
    },
    context: {},
  };
  const sealed = new Proxy(
    {},
    {
      ownKeys: () => {
        throw new Error("no");
      },
    },
  );
  const ended = spindle.start("llm", { name: "ended" });
  ended.usage(throwing);
  ended.usage(sealed);
  ended.end("said", throwing);
  spindle.start("llm", { name: "failed" }).fail(new Error("why"), undefined, sealed);
  expect(spindle.chat(throwing as never)).toMatch(/^[0-9a-f-]{36}$/);
  spindle.saved(throwing as never);
  spindle.feedback(throwing as never, "positive");
  expect(await event("ended_end")).toMatchObject({ output: "said", prompt_tokens: 3 });
  expect((await event("failed_error")).error.message).toBe("why");
});

test("feedback, saved and unsaved name their run", async () => {
  const run = spindle.start("agent");
  spindle.feedback(run, "positive", "good");
  spindle.feedback(run.id, "negative");
  spindle.saved(run);
  spindle.unsaved(run.id);
  const message = spindle.chat({ role: "user", content: "q", thread: "t", user: "u", agent: "a" });
  await spindle.flush();
  expect(reports.events.slice(1)).toMatchObject([
    { name: "feedback", run_id: run.id, rating: "positive", comment: "good" },
    { name: "feedback", run_id: run.id, rating: "negative" },
    { name: "saved", run_id: run.id },
    { name: "unsaved", run_id: run.id },
    { name: "chat", run_id: message, role: "user", content: "q", thread_id: "t", user_email: "u", agent: "a" },
  ]);
});

test("nonsense from an application that has no types is answered without throwing", async () => {
  const wild = spindle as any;
  expect(wild.agent("a", 7)).toBe(7);
  wild.tool(null, () => 1, null)();
  wild.start("llm", null).end();
  wild.start("llm", {
    get name() {
      throw new Error("no");
    },
  });
  wild.start("llm", { tags: "one", metadata: 5, parent: 7, model: 8, user: {}, thread: [] }).end(1, null);
  wild.chat();
  wild.chat({ role: 1, content: { a: 1n } });
  wild.feedback();
  wild.saved(null);
  wild.withTags("x", () => 1);
  wild.withUser(5, () => 1);
  expect(await spindle.flush()).toBe(true);
});
