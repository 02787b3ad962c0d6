/** The Worker of the examples, checked by the compiler against the package and run as at the edge. */

import { AsyncLocalStorage } from "node:async_hooks";
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createContext, Script } from "node:vm";
import { rolldown } from "rolldown";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { startStubModel } from "../../../examples/typescript/stub-model.mjs";
import { Reports, reply } from "./server.js";

const ROOT = resolve(import.meta.dirname, "..");
const EXAMPLE = resolve(ROOT, "../../examples/typescript/worker.ts");

let folder: string;
let bundle: Script;
let reports: Reports;
let model: { url: string; close(): Promise<unknown> };

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "spindle-worker-"));
  mkdirSync(join(folder, "node_modules/@spindle"), { recursive: true });
  symlinkSync(ROOT, join(folder, "node_modules/@spindle/client"));
  symlinkSync(join(ROOT, "node_modules/openai"), join(folder, "node_modules/openai"));
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  cpSync(EXAMPLE, join(folder, "worker.ts"));
  // One script without imports, from what the conditions of a Worker select: whatever needs Node fails to be bundled.
  const conditionNames = ["workerd", "worker", "browser", "import"];
  const built = await rolldown({ input: join(folder, "worker.ts"), platform: "browser", resolve: { conditionNames } });
  const { output } = await built.generate({ format: "iife", name: "worker" });
  expect(output).toHaveLength(1);
  bundle = new Script(output[0].code);
  model = await startStubModel();
});
afterAll(async () => {
  await model?.close();
  rmSync(folder, { recursive: true });
});
beforeEach(async () => {
  reports = await Reports.start();
});
afterEach(() => reports.stop());

test("the example compiles strictly, with the conditions of a Worker", () => {
  const flags =
    "--noEmit --strict --noUncheckedIndexedAccess --skipLibCheck --target es2022 --lib es2022,dom,dom.iterable";
  const modules = "--module esnext --moduleResolution bundler --customConditions workerd,worker,browser --types node";
  const args = [
    ...flags.split(" "),
    ...modules.split(" "),
    "--typeRoots",
    join(ROOT, "node_modules/@types"),
    "worker.ts",
  ];
  try {
    execFileSync(process.execPath, [join(ROOT, "node_modules/typescript/bin/tsc"), ...args], { cwd: folder });
  } catch (error) {
    throw new Error(String((error as { stdout: Buffer }).stdout));
  }
});

/** What runtimes at the edge have in common; nothing of Node is among it. */
const GLOBALS = `AbortController AbortSignal Blob CompressionStream DOMException Event EventTarget File FormData Headers
  ReadableStream Request Response TextDecoder TextEncoder TransformStream URL URLSearchParams WritableStream atob btoa
  console crypto fetch performance queueMicrotask structuredClone`.split(/\s+/);

/** A runtime that has loaded the Worker. */
class Edge {
  /** Timers that were neither called off nor over. */
  readonly open = new Set<number>();
  private readonly worker: { default: { fetch(request: Request, env: object, context: object): Promise<Response> } };

  constructor(more: object) {
    const scope = createContext({
      ...Object.fromEntries(GLOBALS.map((name) => [name, (globalThis as any)[name]])),
      // These give numbers, which cannot be unreferenced.
      setTimeout: (fn: () => void, ms: number) => {
        const id = Number(
          setTimeout(() => {
            this.open.delete(id);
            fn();
          }, ms),
        );
        this.open.add(id);
        return id;
      },
      clearTimeout: (id: number) => {
        this.open.delete(id);
        clearTimeout(id);
      },
      ...more,
    });
    bundle.runInContext(scope);
    expect(new Script("typeof process + typeof Buffer + typeof require").runInContext(scope)).toBe(
      "undefinedundefinedundefined",
    );
    this.worker = new Script("worker").runInContext(scope);
  }

  /** The answer to a request, once everything that the Worker waits for beside it is done. */
  async ask(path: string) {
    const waited: Promise<unknown>[] = [];
    const env = {
      SPINDLE_URL: reports.url,
      SPINDLE_API_KEY: "key-1",
      OPENAI_API_KEY: "none",
      OPENAI_BASE_URL: `${model.url}/v1`,
    };
    const context = { waitUntil: (promise: Promise<unknown>) => waited.push(promise) };
    const handler = this.worker.default ?? this.worker;
    const response = await handler.fetch(new Request(`http://worker${path}`), env, context);
    return { status: response.status, text: await response.text(), flushed: await Promise.all(waited) };
  }
}

test.each([
  ["no storage for contexts", {}],
  ["a global AsyncLocalStorage", { AsyncLocalStorage }],
])("with %s, waitUntil delivers every run below its own request, and no timer is left", async (_, more) => {
  const edge = new Edge(more);
  const answers = [];
  for (const path of ["/?q=Paris", "/stream?q=Rome", "/?q=FAIL"]) answers.push(await edge.ask(path));
  // Two at a time: neither may become the parent of the other's runs.
  answers.push(...(await Promise.all([edge.ask("/?q=one"), edge.ask("/?q=two")])));
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 502, 200, 200]);
  expect(answers.map(({ flushed }) => flushed)).toEqual([[true], [true], [true], [true], [true]]);
  expect(edge.open.size).toBe(0);
  // Of each of the five requests an agent with a tool and a model call, each with its beginning and its end.
  expect(reports.events).toHaveLength(30);
  const agents = reports.events.filter(({ name }) => name === "worker-agent_start");
  expect(agents.map(({ input }) => input).sort()).toEqual(["FAIL", "Paris", "Rome", "one", "two"]);
  for (const { run_id, input } of agents) {
    const below = reports.events.filter(({ parent_run_id }) => parent_run_id === run_id);
    const starts = below.filter(({ name }) => name.endsWith("_start"));
    expect(starts.map(({ name }) => name)).toEqual(["look_up_start", "openai.chat_start"]);
    for (const start of starts) expect(JSON.stringify(start.input)).toContain(input);
  }
  // The run of the stream ended after the response was returned.
  const streamed = reports.events.find(({ ttft_ms }) => ttft_ms !== undefined);
  expect(streamed).toMatchObject({ name: "openai.chat_end", prompt_tokens: 37, completion_tokens: 11 });
  expect(reports.arrivals.every(({ headers }) => headers.authorization === "Bearer key-1")).toBe(true);
});

test("a server that fails or is away costs the answer nothing, and leaves no timer", async () => {
  const edge = new Edge({ console: { ...console, warn: () => {} } });
  reports.answer = (response) => reply(response, 503);
  expect(await edge.ask("/?q=Paris")).toMatchObject({ status: 200, flushed: [true] });
  await reports.stop();
  expect(await edge.ask("/?q=Rome")).toMatchObject({ status: 200, flushed: [true] });
  expect(edge.open.size).toBe(0);
});
