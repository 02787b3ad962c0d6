import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { afterEach, expect, test } from "vitest";
import { type Options, Spindle } from "../src/index.js";
import { accept, hang, made, nowhere, Reports, reply } from "./server.js";

const PACKAGE = resolve(import.meta.dirname, "../dist/node/esm/index.js");
const servers: Reports[] = [];

async function server(...start: Parameters<typeof Reports.start>): Promise<Reports> {
  const reports = await Reports.start(...start);
  servers.push(reports);
  return reports;
}

afterEach(() => Promise.all(servers.splice(0).map((reports) => reports.stop())));

/** Runs a program that has the package as `spindle`, in little memory. */
function inMemory(mib: number, source: string, settings: Record<string, string>): Promise<string> {
  const program = `import * as spindle from ${JSON.stringify(PACKAGE)};\n${source}`;
  const flags = [`--max-old-space-size=${mib}`, "--input-type=module", "--eval", program];
  const env = { PATH: process.env.PATH, ...settings };
  return new Promise((done, fail) => {
    execFile(process.execPath, flags, { env }, (error, out, err) =>
      error ? fail(new Error(err.slice(-2_000))) : done(out),
    );
  });
}

test("a million events in a burst fit into little memory, and each is sent or counted", async () => {
  let arrived = 0;
  const reports = await server((response, arrival, index) => {
    arrived += arrival.events.length;
    reports.arrivals.length = 0;
    accept(response, arrival, index);
  });
  // Kept as they are, the events would take several hundred MiB.
  const said = await inMemory(
    64,
    `spindle.configure({ warn: () => {} });
     const input = { question: "What is the weather in Paris?", lang: "en" };
     for (let at = 0; at < 1_000_000; at++) {
       spindle.start("tool", { name: "burst", input });
       if (at % 100_000 === 0) await new Promise((next) => setImmediate(next));
     }
     await spindle.flush();
     console.log(JSON.stringify(spindle.stats()));`,
    { SPINDLE_URL: reports.url },
  );
  const stats = JSON.parse(said);
  expect(made(stats)).toBe(1_000_000);
  expect(stats.waiting).toBe(0);
  expect(stats.sent).toBe(arrived);
  expect(stats.accepted).toBe(arrived);
  expect(stats.dropped).toEqual({ queue_full: 1_000_000 - arrived, too_large: 0, failed: 0, closed: 0 });
  expect(arrived).toBeGreaterThanOrEqual(10_000);
});

test("large inputs are held by bytes, not by number, also while no server answers", async () => {
  const reports = await server(hang);
  const said = await inMemory(
    96,
    `spindle.configure({ warn: () => {}, exitTimeoutMs: 0 });
     for (let at = 0; at < 5_000; at++) {
       // Another text each time, of 100 kB.
       spindle.start("llm", { input: [{ role: "user", content: Buffer.alloc(100_000, at % 90 + 33).toString("latin1") }] });
       if (at % 100 === 0) await new Promise((next) => setImmediate(next));
     }
     console.log(JSON.stringify(spindle.stats()));`,
    { SPINDLE_URL: reports.url },
  );
  const stats = JSON.parse(said);
  expect(made(stats)).toBe(5_000);
  expect(stats.waiting).toBeGreaterThan(100);
  expect(stats.waiting).toBeLessThan(200);
});

function median(numbers: number[]): number {
  return [...numbers].sort((one, other) => one - other)[Math.floor(numbers.length / 2)] as number;
}

/** What one call costs its caller, the median of many rounds, milliseconds. */
async function cost(options: Options, pause: (spindle: Spindle) => unknown): Promise<number> {
  const spindle = new Spindle({ warn: () => {}, ...options });
  const call = spindle.tool("call", (value: { question: string }) => value.question);
  const input = { question: "What is the weather in Paris?" };
  const rounds: number[] = [];
  for (let round = 0; round < 40; round++) {
    const begun = performance.now();
    for (let at = 0; at < 500; at++) call(input);
    rounds.push((performance.now() - begun) / 500);
    await pause(spindle);
  }
  expect(made(spindle.stats())).toBe(40 * 500 * 2);
  await spindle.close(0);
  return median(rounds);
}

test("a caller waits no longer when the server hangs, fails, is away or the queue is full", async () => {
  const [good, hanging, failing, away] = await Promise.all([
    server(),
    server(hang),
    server((response) => reply(response, 500)),
    nowhere(),
  ]);
  const turn = () => new Promise((next) => setImmediate(next));
  const usual = await cost({ url: good.url }, (spindle) => spindle.flush());
  const others = {
    hanging: await cost({ url: hanging.url }, turn),
    failing: await cost({ url: failing.url }, (spindle) => spindle.flush()),
    away: await cost({ url: away }, (spindle) => spindle.flush()),
    full: await cost({ url: hanging.url, queueEvents: 1 }, turn),
  };
  // Medians within one run; a busy machine disturbs them alike. Waiting for anything would be a hundred times as much.
  for (const [name, value] of Object.entries(others)) expect(value, name).toBeLessThan(usual * 4);
});
