import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type * as Package from "../src/index.js";

const BUILD = resolve(import.meta.dirname, "../dist/browser/esm/index.js");

/** As much of a page as the library uses. */
class Page extends EventTarget {
  document = Object.assign(new EventTarget(), { visibilityState: "visible" });
}

interface Sent {
  events: Record<string, any>[];
  init: RequestInit;
}

let page: Page;
let sent: Sent[];
/** Answers to requests, in order; each is given by the test. */
let answers: (() => void)[];
let spindle: typeof Package;
let loaded = 0;

beforeEach(async () => {
  page = new Page();
  sent = [];
  answers = [];
  vi.stubGlobal("document", page.document);
  vi.stubGlobal("addEventListener", page.addEventListener.bind(page));
  vi.stubGlobal("removeEventListener", page.removeEventListener.bind(page));
  vi.stubGlobal("fetch", (_: string, init: RequestInit) => {
    const events = typeof init.body === "string" ? JSON.parse(init.body).events : [];
    sent.push({ events, init });
    return new Promise((resolve, reject) => {
      init.signal?.addEventListener("abort", () => reject(new DOMException("aborted", "AbortError")));
      answers.push(() => resolve(new Response(JSON.stringify({ accepted: events.length, rejected: 0 }))));
    });
  });
  // Another page has another copy of the library.
  for (const name of ["context", "default"]) delete (globalThis as any)[Symbol.for(`@spindle/client/${name}`)];
  spindle = await import(/* @vite-ignore */ `${pathToFileURL(BUILD)}?page=${loaded++}`);
  spindle.configure({ url: "http://server", flushIntervalMs: 3_600_000, warn: () => {} });
});
afterEach(async () => {
  await spindle.close(0);
  vi.unstubAllGlobals();
});

/** The page leaves the screen, as browsers tell it. */
function hide(how: "pagehide" | "visibilitychange") {
  page.document.visibilityState = "hidden";
  (how === "pagehide" ? page : page.document).dispatchEvent(new Event(how));
}

test.each(["pagehide", "visibilitychange"] as const)(
  "%s sends what waits at once, so that it outlives the page",
  async (how) => {
    spindle.saved("r1");
    hide(how);
    // Nothing was awaited: a page that is left has no later.
    expect(sent.map(({ events }) => events.map((event) => event.run_id))).toEqual([["r1"]]);
    expect(sent[0]?.init.keepalive).toBe(true);
    answers[0]?.();
    expect(await spindle.flush()).toBe(true);
    expect(spindle.stats()).toMatchObject({ sent: 1, accepted: 1 });
  },
);

test("a page that is shown again has sent nothing", () => {
  spindle.saved("r1");
  page.document.dispatchEvent(new Event("visibilitychange"));
  expect(sent).toHaveLength(0);
});

test("at most 60 KiB are sent to outlive the page, the rest as usual, and every event once", async () => {
  for (let at = 0; at < 100; at++) spindle.chat({ role: "user", content: "x".repeat(2_000), run: `r${at}` });
  hide("pagehide");
  const bytes = (one: Sent | undefined) => String(one?.init.body).length;
  expect(sent[0]?.init.keepalive).toBe(true);
  expect(bytes(sent[0])).toBeLessThanOrEqual(60 * 1024);
  expect(bytes(sent[0])).toBeGreaterThan(50 * 1024);
  expect(sent.slice(1).every(({ init }) => !init.keepalive || init.body instanceof ArrayBuffer)).toBe(true);
  const flushed = spindle.flush();
  const timer = setInterval(() => {
    for (const answer of answers.splice(0)) answer();
  }, 1);
  expect(await flushed).toBe(true);
  clearInterval(timer);
  expect(spindle.stats()).toMatchObject({ queued: 100, sent: 100, waiting: 0 });
});

test("what is under way counts against what may outlive the page", async () => {
  spindle.chat({ role: "user", content: "x".repeat(5_000) });
  void spindle.flush();
  await vi.waitUntil(() => sent.length === 1);
  for (let at = 0; at < 40; at++) spindle.chat({ role: "user", content: "x".repeat(2_000) });
  hide("pagehide");
  const kept = sent.filter(({ init }) => init.keepalive);
  expect(kept).toHaveLength(2);
  expect(kept.reduce((sum, { init }) => sum + String(init.body).length, 0)).toBeLessThanOrEqual(60 * 1024);
});

test("the current run is known until the first await, and never the wrong one", async () => {
  const inner = spindle.tool("inner", () => spindle.currentRun()?.name);
  const seen: (string | undefined)[] = [];
  const outer = spindle.agent("outer", async () => {
    seen.push(spindle.currentRun()?.name, inner());
    await null;
    seen.push(spindle.currentRun()?.name);
  });
  const other = outer();
  expect(spindle.currentRun()).toBeUndefined();
  await other;
  expect(seen).toEqual(["outer", "inner", undefined]);
});

test("a parent that is given holds across awaits", async () => {
  const search = spindle.tool("search", async () => 1);
  const outer = spindle.agent("outer", async () => {
    const run = spindle.currentRun();
    await null;
    await run?.within(search);
    return spindle.start("tool", { name: "by-hand", parent: run }).end();
  });
  await outer();
  hide("pagehide");
  const events = sent.flatMap(({ events }) => events);
  const { run_id } = events.find(({ name }) => name === "outer_start") as { run_id: string };
  for (const name of ["search_start", "by-hand_start"]) {
    expect(events.find((event) => event.name === name)).toMatchObject({ parent_run_id: run_id });
  }
});

test("ids are UUIDs also on pages that are not secure", async () => {
  vi.stubGlobal("crypto", { getRandomValues: (bytes: Uint8Array) => bytes.fill(255) });
  expect(spindle.start("tool").id).toBe("ffffffff-ffff-4fff-bfff-ffffffffffff");
  vi.stubGlobal("crypto", undefined);
  expect(spindle.start("tool").id).toMatch(/^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/);
});

test("close leaves no listener on the page", async () => {
  await spindle.close();
  hide("pagehide");
  spindle.saved("late");
  hide("visibilitychange");
  expect(sent).toHaveLength(0);
});
