import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, afterEach, beforeEach, expect, test } from "vitest";
import { accept, hang, Reports } from "./server.js";

const PACKAGE = resolve(import.meta.dirname, "../dist/node/esm/index.js");
const folder = mkdtempSync(join(tmpdir(), "spindle-client-"));
let reports: Reports;
let programs = 0;

afterAll(() => rmSync(folder, { recursive: true }));
beforeEach(async () => {
  reports = await Reports.start();
});
afterEach(() => reports.stop());

interface Ended {
  code: number | null;
  signal: NodeJS.Signals | null;
  said: string;
}

/** Starts a program that has the package as `spindle`; `line` waits for a line it writes, `ended` for its end. */
function program(source: string, settings: Record<string, string> = {}) {
  const path = join(folder, `program-${programs++}.mjs`);
  writeFileSync(path, `import * as spindle from ${JSON.stringify(PACKAGE)};\n${source}`);
  const env = { PATH: process.env.PATH, SPINDLE_URL: reports.url, ...settings };
  const child: ChildProcess = spawn(process.execPath, [path], { env, stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  const waiters: (() => void)[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on("data", (part) => {
      said += part;
      for (const wake of waiters) wake();
    });
  }
  const ended = new Promise<Ended>((done) => {
    child.on("close", (code, signal) => {
      done({ code, signal, said });
      for (const wake of waiters) wake();
    });
  });
  const line = async (text: string) => {
    while (!said.includes(text)) {
      if (child.exitCode !== null) throw new Error(said);
      await new Promise<void>((wake) => waiters.push(wake));
    }
  };
  return { child, ended, line };
}

const names = () => reports.events.map(({ name, run_id }) => `${name} ${run_id}`).sort();
/** A busy machine may need longer than two seconds to start a thread. */
const patient = "spindle.configure({ exitTimeoutMs: 60_000 });";
const stays = "setInterval(() => {}, 1000);";

test("a program that simply ends has sent everything, and is not kept by the interval", async () => {
  const { ended } = program(`
    spindle.configure({ flushIntervalMs: 3_600_000, exitTimeoutMs: 60_000 });
    spindle.saved("r1");
    setTimeout(() => spindle.saved("r2"), 10);
    process.exitCode = 5;
  `);
  expect(await ended).toEqual({ code: 5, signal: null, said: "" });
  expect(names()).toEqual(["saved r1", "saved r2"]);
});

test("a program that ends while the server hangs ends within the time for the last flush", async () => {
  reports.answer = hang;
  const { ended } = program(`
    spindle.configure({ exitTimeoutMs: 100, requestTimeoutMs: 600_000 });
    process.on("exit", () => console.log(JSON.stringify(spindle.stats().dropped)));
    spindle.saved("r1");
  `);
  const { code, said } = await ended;
  expect(code).toBe(0);
  expect(said).toContain('"closed":1');
});

test("a request that gets no answer does not keep a program that has nothing else to do", async () => {
  reports.answer = hang;
  const { ended } = program(`
    spindle.configure({ flushIntervalMs: 1, exitTimeoutMs: 100, requestTimeoutMs: 600_000, batchEvents: 1 });
    for (let at = 0; at < 20; at++) spindle.saved("r" + at);
    // Long enough for a request to be under way.
    setTimeout(() => {}, 200);
  `);
  expect((await ended).code).toBe(0);
  expect(reports.arrivals).toHaveLength(1);
});

test("a flush that is awaited keeps the program until it is done", async () => {
  reports.answer = (response, arrival, index) => setTimeout(() => accept(response, arrival, index), 300);
  const { ended } = program(`
    spindle.configure({ exitTimeoutMs: 0 });
    spindle.saved("r1");
    await spindle.flush();
    console.log(spindle.stats().accepted);
  `);
  expect(await ended).toEqual({ code: 0, signal: null, said: "1\n" });
});

test("a program that ends without a reachable server ends, and logs the loss", async () => {
  await reports.stop();
  const { ended } = program(`spindle.saved("r1");`);
  reports = await Reports.start();
  const { code, said } = await ended;
  expect(code).toBe(0);
  expect(said).toMatch(/ECONNREFUSED.*failed 1/);
});

test("process.exit sends what waits and what is under way", async () => {
  const { ended } = program(`
    ${patient}
    spindle.saved("r1");
    spindle.flush();
    setImmediate(() => { spindle.saved("r2"); process.exit(7); });
  `);
  expect(await ended).toEqual({ code: 7, signal: null, said: "" });
  expect(new Set(names())).toEqual(new Set(["saved r1", "saved r2"]));
  // What was under way may arrive twice, as the same event.
  expect(new Set(reports.events.map(({ event_id }) => event_id)).size).toBe(2);
});

test("process.exit does not wait longer than it may", async () => {
  reports.answer = hang;
  const { ended } = program(`
    spindle.configure({ exitTimeoutMs: 100 });
    spindle.saved("r1");
    process.exit(7);
  `);
  expect((await ended).code).toBe(7);
});

test("an uncaught error ends the program as before, and the events are sent", async () => {
  const { ended } = program(`${patient} spindle.saved("r1"); throw new Error("uncaught");`);
  const { code, said } = await ended;
  expect(code).toBe(1);
  expect(said).toContain("uncaught");
  expect(names()).toEqual(["saved r1"]);
});

test.each(["SIGTERM", "SIGINT"] as const)("%s sends everything and ends the program by that signal", async (signal) => {
  const { child, ended, line } = program(`${patient} spindle.saved("r1"); console.log("ready"); ${stays}`);
  await line("ready");
  child.kill(signal);
  expect(await ended).toMatchObject({ code: null, signal });
  expect(names()).toEqual(["saved r1"]);
});

test("a second signal ends the program at once", async () => {
  reports.answer = hang;
  const { child, ended, line } = program(`
    spindle.configure({ exitTimeoutMs: 60_000, requestTimeoutMs: 600_000 });
    spindle.saved("r1");
    console.log("ready"); ${stays}
  `);
  await line("ready");
  child.kill("SIGTERM");
  await reports.until(() => reports.arrivals.length === 1);
  child.kill("SIGTERM");
  expect(await ended).toMatchObject({ signal: "SIGTERM" });
});

test("an application that handles the signal decides for itself", async () => {
  const { child, ended, line } = program(`
    ${patient}
    process.on("SIGTERM", () => { spindle.saved("r2"); console.log("handled"); setTimeout(() => process.exit(3), 10); });
    spindle.saved("r1"); console.log("ready"); ${stays}
  `);
  await line("ready");
  child.kill("SIGTERM");
  expect(await ended).toMatchObject({ code: 3, signal: null });
  expect(new Set(names())).toEqual(new Set(["saved r1", "saved r2"]));
});

test("an application that takes a signal as a word goes on, and the next one is noticed again", async () => {
  const { child, ended, line } = program(`
    let times = 0;
    process.on("SIGINT", () => { console.log("word " + ++times + "."); if (times === 2) process.exit(0); });
    spindle.saved("r1"); console.log("ready"); ${stays}
  `);
  await line("ready");
  child.kill("SIGINT");
  await line("word 1.");
  await reports.until(() => reports.events.length === 1);
  child.kill("SIGINT");
  expect(await ended).toMatchObject({ code: 0 });
});

test("another library that ends the program when it is the only listener still does", async () => {
  const { child, ended, line } = program(`
    const other = () => {
      if (process.listenerCount("SIGTERM") > 1) return;
      process.off("SIGTERM", other);
      process.kill(process.pid, "SIGTERM");
    };
    process.on("SIGTERM", other);
    spindle.saved("r1"); console.log("ready"); ${stays}
  `);
  await line("ready");
  child.kill("SIGTERM");
  expect(await ended).toMatchObject({ signal: "SIGTERM" });
});

test("flushAtExit: false leaves the process alone", async () => {
  const { ended } = program(`
    const count = () => ["beforeExit", "exit", "SIGTERM", "SIGINT"].map((way) => process.listenerCount(way)).join();
    const before = count();
    spindle.configure({ flushAtExit: false });
    spindle.saved("r1");
    console.log(count() === before);
  `);
  expect((await ended).said).toBe("true\n");
  expect(names()).toEqual([]);
});

test("many clients share their listeners, and the last one that closes takes them away", async () => {
  const { ended } = program(`
    const count = () => process.listenerCount("SIGTERM") + process.listenerCount("exit");
    const before = count();
    const clients = Array.from({ length: 30 }, () => new spindle.Spindle());
    console.log(count() - before);
    await Promise.all(clients.map((client) => client.close()));
    console.log(count() - before);
  `);
  expect((await ended).said).toBe("2\n0\n");
});

test("child processes and workers of a cluster report their own, and the parent its own, each once", async () => {
  const { ended } = program(`
    import cluster from "node:cluster";
    import { fork } from "node:child_process";
    import { fileURLToPath } from "node:url";
    ${patient}
    const who = cluster.isWorker ? "worker" : (process.env.WHO ?? "parent");
    spindle.saved(who);
    if (who === "parent") {
      fork(fileURLToPath(import.meta.url), { env: { ...process.env, WHO: "child" } });
      cluster.fork();
    }
    if (who === "worker") cluster.worker.disconnect();
  `);
  expect((await ended).code).toBe(0);
  expect(names()).toEqual(["saved child", "saved parent", "saved worker"]);
});

test("a worker thread sends its own when it ends, and when it calls process.exit", async () => {
  const { ended } = program(`
    import { isMainThread, Worker, workerData } from "node:worker_threads";
    import { fileURLToPath } from "node:url";
    ${patient}
    if (isMainThread) {
      spindle.saved("main");
      for (const how of ["ends", "exits"]) new Worker(fileURLToPath(import.meta.url), { workerData: how });
    } else {
      spindle.saved(workerData);
      if (workerData === "exits") process.exit();
    }
  `);
  expect((await ended).code).toBe(0);
  expect(names()).toEqual(["saved ends", "saved exits", "saved main"]);
});
