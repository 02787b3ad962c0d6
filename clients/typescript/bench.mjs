/**
 * Measures what the library costs an application: `npm run build && npm run bench`.
 *
 * A call is a wrapped function, so two events. "call" is the time the caller waits, the median over rounds; "all" is
 * the processor time of the whole process for one call, sending included.
 */

import { fork } from "node:child_process";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";

/** Calls of one round: their events fit into the queue. */
const CALLS = 2_000;
const ROUNDS = 25;
const BURST = 1_000_000;

/** A server in a process of its own: `good` takes everything, `slow` answers after a second. */
function serve(manner) {
  const server = createServer((request, response) => {
    request.resume();
    request.on("end", () => setTimeout(() => response.end('{"accepted":0}'), manner === "slow" ? 1_000 : 0));
  });
  server.listen(0, "127.0.0.1", () => process.send(server.address().port));
  process.on("disconnect", () => process.exit());
}

async function start(manner) {
  const child = fork(fileURLToPath(import.meta.url), ["server", manner]);
  const port = await new Promise((ready) => child.once("message", ready));
  return { url: `http://127.0.0.1:${port}`, stop: () => child.disconnect() };
}

function median(numbers) {
  return [...numbers].sort((one, other) => one - other)[Math.floor(numbers.length / 2)];
}

const small = { question: "What is the weather in Paris?", lang: "en" };
const words = "x".repeat(100_000);
/** 100 kB of JSON as a conversation has it: 200 messages of 500 characters. */
const messages = Array.from({ length: 200 }, () => ({ role: "user", content: "x".repeat(470) }));

async function measure() {
  const { Spindle } = await import("./dist/node/esm/index.js");
  const [good, slow] = await Promise.all([start("good"), start("slow")]);
  const down = "http://127.0.0.1:9";
  const quiet = { warn: () => {} };
  const cases = [
    ["small input", { url: good.url }, small],
    ["100 kB, one text", { url: good.url, queueBytes: 1 << 30 }, words],
    ["100 kB, 200 messages", { url: good.url, queueBytes: 1 << 30 }, messages],
    ["small, nothing captured", { url: good.url, captureInput: false, captureOutput: false }, small],
    ["small, queue full", { url: slow.url, queueEvents: 1 }, small],
    ["small, server down", { url: down }, small],
    ["small, server slow", { url: slow.url }, small],
  ];
  console.log(`node ${process.version}; microseconds per call, ${ROUNDS} rounds of ${CALLS} calls`);
  for (const [name, options, input] of cases) {
    const spindle = new Spindle({ ...quiet, ...options });
    const call = spindle.tool("bench", (value) => value.length);
    const isLarge = input !== small;
    const calls = isLarge ? CALLS / 20 : CALLS;
    const waits = [];
    let made = 0;
    let used = 0;
    for (let round = 0; round < ROUNDS; round++) {
      const before = process.cpuUsage();
      const begun = performance.now();
      for (let at = 0; at < calls; at++) call(input);
      waits.push(((performance.now() - begun) * 1_000) / calls);
      made += calls;
      // A slow or full queue stays what it is; elsewhere every round begins with an empty one.
      if (!name.includes("full") && !name.includes("slow")) await spindle.flush();
      const { user, system } = process.cpuUsage(before);
      used += user + system;
    }
    const stats = spindle.stats();
    const lost = Object.values(stats.dropped).reduce((sum, count) => sum + count, 0);
    if (stats.sent + stats.waiting + lost !== made * 2) throw new Error(`${name}: events are missing`);
    console.log(
      `${name.padEnd(26)} call ${median(waits).toFixed(2).padStart(8)}   all ${(used / made).toFixed(2).padStart(8)}`,
    );
    await spindle.close(0);
  }
  await burst(Spindle, good.url);
  good.stop();
  slow.stop();
}

/** A million events as fast as they can be made, without and with moments in which something can be sent. */
async function burst(Spindle, url) {
  for (const [name, pause] of [
    ["without a pause", BURST],
    ["a turn of the loop every 1000", 1_000],
  ]) {
    const spindle = new Spindle({ url, warn: () => {} });
    globalThis.gc?.();
    const before = process.memoryUsage().rss;
    let most = before;
    const begun = performance.now();
    for (let at = 0; at < BURST; at++) {
      spindle.start("tool", { name: "burst", input: small });
      if (at % pause === pause - 1) {
        await new Promise((next) => setImmediate(next));
        most = Math.max(most, process.memoryUsage().rss);
      }
    }
    const made = performance.now() - begun;
    await spindle.flush();
    most = Math.max(most, process.memoryUsage().rss);
    const { sent, dropped } = spindle.stats();
    if (sent + dropped.queue_full + dropped.failed !== BURST) throw new Error("events are missing");
    const grown = (most - before) / 2 ** 20;
    console.log(
      `${BURST} events, ${name}: ${(made / 1_000).toFixed(2)} s, ${sent} sent, ${dropped.queue_full} dropped, ` +
        `${grown.toFixed(0)} MiB more memory`,
    );
    await spindle.close();
  }
}

if (process.argv[2] === "server") serve(process.argv[3]);
else await measure();
