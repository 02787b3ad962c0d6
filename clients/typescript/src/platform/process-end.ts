/** The end of a Node process, in each of its ways, and the last flush that belongs to it. */

import { isMainThread, Worker } from "node:worker_threads";
import type { Ending, LastWords } from "./surface.js";

const SIGNALS = ["SIGTERM", "SIGINT"] as const;

/** All clients share one listener for each way, however many there are. */
const endings = new Set<Ending>();

/** Tells `ending` when the process ends. */
export function watchEnd(ending: Ending): () => void {
  if (endings.size === 0) listen();
  endings.add(ending);
  return () => {
    if (endings.delete(ending) && endings.size === 0) unlisten();
  };
}

function listen(): void {
  process.on("beforeExit", onBeforeExit);
  process.on("exit", onExit);
  // Worker threads get no signals.
  if (isMainThread) for (const signal of SIGNALS) process.prependListener(signal, onSignal);
}

function unlisten(): void {
  process.off("beforeExit", onBeforeExit);
  process.off("exit", onExit);
  for (const signal of SIGNALS) process.off(signal, onSignal);
}

async function flushAll(): Promise<void> {
  await Promise.all([...endings].map((ending) => ending.flushAndLetGo()));
}

/** Nothing is left to do: what is awaited here keeps the process until it is done, and no longer. */
function onBeforeExit(): void {
  if ([...endings].some((ending) => ending.hasEvents())) void flushAll();
}

/**
 * A signal. Listening to one takes away what it does by default, so that is done here when there is no other listener.
 *
 * Where the application listens itself, it decides what becomes of the process. This listener is away while the
 * others run: some look whether they are the only one, and must see what they would see without this library.
 */
function onSignal(signal: NodeJS.Signals): void {
  process.off(signal, onSignal);
  if (process.listenerCount(signal) === 0) {
    const end = () => process.kill(process.pid, signal);
    flushAll().then(end, end);
    return;
  }
  for (const ending of endings) ending.flushNow();
  const again = () => {
    if (endings.size > 0 && !process.listeners(signal).includes(onSignal)) process.prependListener(signal, onSignal);
  };
  setImmediate(again).unref();
}

/** `process.exit` or an uncaught error: nothing can be awaited any more, so a thread sends while this one waits. */
function onExit(): void {
  const words = [...endings].map((ending) => ending.lastWords()).filter((words) => words !== undefined);
  if (words.length === 0) return;
  const withinMs = Math.max(...[...endings].map((ending) => ending.exitTimeoutMs));
  if (withinMs === 0) return;
  try {
    sendInThread(words, withinMs);
  } catch {
    // Best effort: where no thread can start any more, the events are lost.
  }
}

/** What the thread does; it has no file of its own so that bundlers need not know of it. */
const THREAD = `
const { workerData } = require("node:worker_threads");
const done = new Int32Array(workerData.done);
const signal = AbortSignal.timeout(workerData.withinMs);
const post = async ({ endpoint, headers, bodies }) => {
  for (const body of bodies) await (await fetch(endpoint, { method: "POST", headers, body, signal })).arrayBuffer();
};
Promise.allSettled(workerData.words.map(post)).then(() => {
  Atomics.store(done, 0, 1);
  Atomics.notify(done, 0);
});
`;

function sendInThread(words: LastWords[], withinMs: number): void {
  const done = new SharedArrayBuffer(4);
  const worker = new Worker(THREAD, { eval: true, execArgv: [], workerData: { words, withinMs, done } });
  worker.on("error", () => {});
  worker.unref();
  Atomics.wait(new Int32Array(done), 0, 0, withinMs);
}
