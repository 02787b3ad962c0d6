import { connect } from "node:net";
import { afterEach, expect, test, vi } from "vitest";
import { type Options, Spindle } from "../src/index.js";
import { NAME } from "../src/version.js";
import { type Answer, accept, hang, made, nowhere, Reports, reply } from "./server.js";

const clients: Spindle[] = [];
const servers: Reports[] = [];

function client(options: Options): Spindle {
  const spindle = new Spindle({ flushIntervalMs: 20, warn: () => {}, ...options });
  clients.push(spindle);
  return spindle;
}

async function server(answer?: Answer, port?: number): Promise<Reports> {
  const reports = await Reports.start(answer, port);
  servers.push(reports);
  return reports;
}

afterEach(async () => {
  await Promise.all(clients.splice(0).map((spindle) => spindle.close(0)));
  await Promise.all(servers.splice(0).map((reports) => reports.stop().catch(() => {})));
});

test("events go out by themselves after the interval, with key, app and ids of their own", async () => {
  const reports = await server();
  const spindle = client({ url: `${reports.url}/`, apiKey: " sp_key_1\n", appId: "shop" });
  spindle.chat({ role: "user", content: "hello" });
  spindle.chat({ role: "user", content: "hello" });
  await reports.until(() => reports.events.length === 2);
  const [arrival] = reports.arrivals;
  expect(arrival?.path).toBe("/api/report");
  expect(arrival?.headers.authorization).toBe("Bearer sp_key_1");
  expect(arrival?.headers["content-type"]).toBe("application/json");
  expect(new Set(reports.events.map((event) => event.event_id)).size).toBe(2);
  const [event] = reports.events;
  expect(event).toMatchObject({ name: "chat", role: "user", content: "hello", app_id: "shop" });
  expect(event?.timestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
});

test("a key in the address becomes the key, and never part of the address", async () => {
  const reports = await server();
  const spindle = client({ url: `http://sp_key_2:x@127.0.0.1:${reports.port}` });
  spindle.saved("r");
  expect(await spindle.flush()).toBe(true);
  expect(reports.arrivals[0]?.headers.authorization).toBe("Bearer sp_key_2");
});

test("ids of events are in the order of their making", async () => {
  const reports = await server();
  const spindle = client({ url: reports.url });
  for (let at = 0; at < 100; at++) spindle.saved(`r${at}`);
  await spindle.flush();
  const ids = reports.events.map((event) => event.event_id);
  expect([...ids].sort()).toEqual(ids);
  expect(reports.events.map((event) => event.run_id)).toEqual(ids.map((_, at) => `r${at}`));
});

test("a flush is as many requests as events and bytes need, one after another", async () => {
  let open = 0;
  let most = 0;
  const reports = await server((response, arrival, index) => {
    most = Math.max(most, ++open);
    setImmediate(() => {
      open--;
      accept(response, arrival, index);
    });
  });
  const spindle = client({ url: reports.url, batchEvents: 7, batchBytes: 4_000, gzipBytes: Number.POSITIVE_INFINITY });
  for (let at = 0; at < 40; at++) spindle.chat({ role: "user", content: "x".repeat(at * 50) });
  expect(await spindle.flush()).toBe(true);
  expect(most).toBe(1);
  expect(reports.arrivals.every(({ events, bytes }) => events.length <= 7 && bytes <= 4_000)).toBe(true);
  expect(reports.events).toHaveLength(40);
  expect(spindle.stats()).toMatchObject({ queued: 40, sent: 40, accepted: 40, waiting: 0 });
});

test("an event that fits into no request is dropped as too large, and the others arrive", async () => {
  const reports = await server();
  const spindle = client({ url: reports.url, batchBytes: 10_000 });
  spindle.chat({ role: "user", content: "a" });
  spindle.chat({ role: "user", content: "€".repeat(4_000) });
  spindle.chat({ role: "user", content: "b" });
  await spindle.flush();
  expect(reports.events.map((event) => event.content)).toEqual(["a", "b"]);
  expect(spindle.stats()).toMatchObject({ sent: 2, dropped: { too_large: 1 } });
});

test("large bodies are compressed, small ones are not", async () => {
  const reports = await server();
  const spindle = client({ url: reports.url });
  spindle.chat({ role: "user", content: "a" });
  await spindle.flush();
  spindle.chat({ role: "user", content: "a".repeat(100_000) });
  await spindle.flush();
  expect(reports.arrivals.map(({ headers }) => headers["content-encoding"])).toEqual([undefined, "gzip"]);
  expect(reports.arrivals[1]?.bytes).toBeLessThan(5_000);
});

test("a full queue drops what comes on top, and every event is accounted for", async () => {
  const reports = await server(hang);
  const spindle = client({ url: reports.url, queueEvents: 50 });
  for (let at = 0; at < 200; at++) spindle.saved(`r${at}`);
  expect(spindle.stats()).toMatchObject({ queued: 50, waiting: 50, dropped: { queue_full: 150 } });
  expect(made(spindle.stats())).toBe(200);
  expect(await spindle.close(0)).toBe(false);
  expect(spindle.stats()).toMatchObject({ waiting: 0, dropped: { queue_full: 150, closed: 50 } });
  spindle.saved("late");
  expect(spindle.stats().dropped.closed).toBe(51);
});

test("the queue is bounded in bytes too", async () => {
  const spindle = client({ url: await nowhere(), queueBytes: 100_000 });
  for (let at = 0; at < 100; at++) spindle.start("llm", { input: "x".repeat(10_000) });
  const { queued, dropped } = spindle.stats();
  expect(queued).toBeLessThan(10);
  expect(queued + dropped.queue_full).toBe(100);
});

const failures: [string, Answer, string][] = [
  ["500", (response) => reply(response, 500), "answered 500"],
  ["401", (response) => reply(response, 401), "answered 401"],
  ["a redirect", (response) => reply(response, 302, "", { location: "/elsewhere" }), "answered 302"],
  ["a dropped connection", (response) => response.destroy(), "not reached"],
  [
    "half an answer",
    (response) => {
      response.writeHead(200, { "content-length": "1000" });
      response.write("{", () => response.destroy());
    },
    "not reached",
  ],
  ["no answer in time", hang, "did not answer in time"],
];

test.each(failures)(
  "%s loses the batch, which is counted and told, and the next one arrives",
  async (_, answer, told) => {
    const warnings: string[] = [];
    const reports = await server(answer);
    const spindle = client({ url: reports.url, requestTimeoutMs: 200, warn: (message) => warnings.push(message) });
    spindle.chat({ role: "user", content: "lost" });
    expect(await spindle.flush()).toBe(true);
    expect(spindle.stats()).toMatchObject({ sent: 0, retries: 0, dropped: { failed: 1 } });
    expect(warnings).toEqual([expect.stringContaining(told)]);
    expect(warnings[0]).not.toContain("lost");
    reports.answer = accept;
    spindle.chat({ role: "user", content: "kept" });
    await spindle.flush();
    expect(reports.arrivals.at(-1)?.events).toEqual([expect.objectContaining({ content: "kept" })]);
    expect(spindle.stats()).toMatchObject({ sent: 1 });
  },
);

test("a kept connection that the server had closed loses nothing", async () => {
  const reports = await server((response, arrival, index) =>
    index === 1 ? response.destroy() : accept(response, arrival, index),
  );
  const spindle = client({ url: reports.url });
  for (const run of ["r1", "r2"]) {
    spindle.saved(run);
    await spindle.flush();
  }
  expect(reports.events.map(({ run_id }) => run_id)).toEqual(["r1", "r2", "r2"]);
  expect(spindle.stats()).toMatchObject({ sent: 2, dropped: { failed: 0 } });
});

test("after a failure the rest waits for its time instead of being lost as well", async () => {
  const reports = await server((response) => reply(response, 500));
  const spindle = client({ url: reports.url, batchEvents: 10, flushIntervalMs: 1_000 });
  for (let at = 0; at < 95; at++) spindle.saved(`r${at}`);
  await vi.waitUntil(() => spindle.stats().dropped.failed > 0);
  reports.answer = accept;
  expect(spindle.stats().waiting).toBe(85);
  await reports.until(() => reports.events.length === 95);
  await spindle.flush();
  expect(spindle.stats()).toMatchObject({ sent: 85, dropped: { failed: 10 } });
});

test.each([
  ["no JSON", "<html>"],
  ["nothing", ""],
  ["other JSON", '{"accepted":"all","errors":7}'],
  ["null", "null"],
])("a success with %s as its answer is not Spindle's: the batch failed, is logged and not retried", async (_, body) => {
  const warnings: string[] = [];
  const reports = await server((response) => reply(response, 200, body));
  const spindle = client({ url: reports.url, retries: 3, warn: (message) => warnings.push(message) });
  spindle.saved("r");
  expect(await spindle.flush()).toBe(true);
  expect(reports.arrivals).toHaveLength(1);
  expect(spindle.stats()).toMatchObject({ sent: 0, accepted: 0, rejected: 0, dropped: { failed: 1 } });
  expect(warnings).toEqual([expect.stringContaining("not Spindle's")]);
});

test("an endless answer is not read to its end", async () => {
  const reports = await server((response) => {
    response.writeHead(200);
    const more = () => {
      while (!response.destroyed && response.write("x".repeat(65_536))) {}
    };
    response.on("drain", more);
    more();
  });
  const spindle = client({ url: reports.url, requestTimeoutMs: 60_000 });
  spindle.saved("r");
  expect(await spindle.flush()).toBe(true);
  expect(spindle.stats()).toMatchObject({ sent: 0, dropped: { failed: 1 } });
});

test.each([
  [401, "unknown_api_key", "the API key is not known"],
  [403, "missing_scope", "the API key may not report"],
  [413, "body_too_large", "the body has more than 10 MiB"],
])("%i: the warning has the server's own words, and the key is not in it", async (status, error, message) => {
  const warnings: string[] = [];
  const reports = await server((response) => reply(response, status, JSON.stringify({ error, message, status })));
  const spindle = client({ url: reports.url, apiKey: "sp_key_secret", warn: (warning) => warnings.push(warning) });
  spindle.saved("r");
  await spindle.flush();
  expect(warnings).toEqual([expect.stringContaining(`the server answered ${status} (${error}: ${message})`)]);
  expect(warnings.join()).not.toContain("secret");
  expect(spindle.stats()).toMatchObject({ sent: 0, dropped: { failed: 1 } });
});

test("a server that says nothing, or too much, is named by its status", async () => {
  const warnings: string[] = [];
  const bodies = [
    "<html>no",
    JSON.stringify({ error: {}, message: 1 }),
    JSON.stringify({ error: "e", message: "m".repeat(9_000) }),
  ];
  const reports = await server((response, _, index) => reply(response, 400, bodies[index]));
  for (const _ of bodies) {
    const spindle = client({ url: reports.url, warn: (warning) => warnings.push(warning) });
    spindle.saved("r");
    await spindle.flush();
  }
  expect(warnings.slice(0, 2)).toEqual(Array(2).fill(expect.stringContaining("the server answered 400; ")));
  expect(warnings[2]).toContain("(e: mmm");
  expect(warnings[2]?.length).toBeLessThan(500);
});

test("Node says which library sends", async () => {
  const reports = await server();
  const spindle = client({ url: reports.url });
  spindle.saved("r");
  await spindle.flush();
  expect(reports.arrivals[0]?.headers["user-agent"]).toBe(NAME);
});

test("what the server refuses is counted and told", async () => {
  const warnings: string[] = [];
  const errors = [{ index: 0, code: "missing_field", message: "events[0].run_id is required" }];
  const reports = await server((response) =>
    reply(response, 200, JSON.stringify({ accepted: 1, rejected: 1, errors })),
  );
  const spindle = client({ url: reports.url, warn: (message) => warnings.push(message) });
  spindle.saved("refused");
  spindle.saved("r");
  await spindle.flush();
  expect(spindle.stats()).toMatchObject({ sent: 2, accepted: 1, rejected: 1 });
  expect(warnings).toEqual([expect.stringContaining("(missing_field: events[0].run_id is required)")]);
});

test("with retries a batch is sent again with the same event ids, and not more often than asked", async () => {
  const reports = await server((response) => reply(response, 503, "{}", { "retry-after": "0" }));
  const spindle = client({ url: reports.url, retries: 2 });
  spindle.saved("r");
  await spindle.flush();
  expect(reports.arrivals).toHaveLength(3);
  expect(new Set(reports.events.map((event) => event.event_id)).size).toBe(1);
  expect(spindle.stats()).toMatchObject({ sent: 0, retries: 2, dropped: { failed: 1 } });
});

test("Retry-After is honoured", async () => {
  const reports = await server((response, arrival, index) =>
    index === 0 ? reply(response, 429, "{}", { "retry-after": "1" }) : accept(response, arrival, index),
  );
  const spindle = client({ url: reports.url, retries: 1 });
  spindle.saved("r");
  await spindle.flush();
  const [first, second] = reports.arrivals;
  expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThanOrEqual(990);
  expect(spindle.stats()).toMatchObject({ sent: 1, retries: 1 });
});

const away: Answer = (response, arrival, index) =>
  index === 0 ? reply(response, 503, "{}", { "retry-after": "60" }) : accept(response, arrival, index);

test.each(["while the first try is under way", "while it waits for another"])(
  "a close %s tries once more at once, however long the server wants to be left alone",
  async (when) => {
    const reports = await server(away);
    const spindle = client({ url: reports.url, retries: 3 });
    spindle.saved("r");
    await reports.until(() => reports.arrivals.length === 1);
    // Nothing tells that the answer was read; on a machine too busy for that this is the other case again.
    if (when.includes("waits")) await new Promise((read) => setTimeout(read, 50));
    expect(await spindle.close(60_000)).toBe(true);
    expect(reports.arrivals).toHaveLength(2);
    expect(spindle.stats()).toMatchObject({ sent: 1, retries: 1, dropped: { closed: 0, failed: 0 } });
  },
);

test("a flush ends the wait for another try", async () => {
  const reports = await server(away);
  const spindle = client({ url: reports.url, retries: 3 });
  spindle.saved("r");
  // The first may come before the wait has begun.
  await vi.waitUntil(() => spindle.flush(100), { timeout: 50_000 });
  expect(spindle.stats()).toMatchObject({ sent: 1, retries: 1 });
});

test("who closes while the server is away is done after one more try", async () => {
  const reports = await server((response) => reply(response, 503, "{}", { "retry-after": "60" }));
  const spindle = client({ url: reports.url, retries: 20 });
  spindle.saved("r");
  await reports.until(() => reports.arrivals.length === 1);
  expect(await spindle.close(60_000)).toBe(true);
  expect(reports.arrivals).toHaveLength(2);
  expect(spindle.stats()).toMatchObject({ retries: 1, dropped: { failed: 1, closed: 0 } });
});

test("an event that cannot be written as JSON is counted, and those behind it arrive", async () => {
  const warnings: string[] = [];
  const reports = await server();
  const spindle = client({ url: reports.url, warn: (message) => warnings.push(message) });
  spindle.start(7n as never);
  spindle.saved("r");
  expect(await spindle.flush()).toBe(true);
  expect(reports.events).toMatchObject([{ name: "saved" }]);
  expect(spindle.stats()).toMatchObject({ queued: 2, sent: 1, dropped: { failed: 1 } });
  expect(warnings).toEqual([expect.stringContaining("JSON")]);
});

test("roles and ratings of any kind become texts", async () => {
  const reports = await server();
  const spindle = client({ url: reports.url });
  const cycle: { self?: unknown } = {};
  cycle.self = cycle;
  spindle.feedback("r", 5n as never);
  spindle.chat({ role: 1n as never, content: "a" });
  spindle.chat({ role: cycle as never, content: "b" });
  expect(await spindle.flush()).toBe(true);
  expect(reports.events.map(({ role, rating }) => typeof (role ?? rating))).toEqual(["string", "string", "string"]);
});

test("a flush that cannot move anything ends all the same", async () => {
  const spindle = client({ url: await nowhere() });
  spindle.saved("r");
  const { reporter } = spindle as unknown as { reporter: { pack?: () => never } };
  reporter.pack = () => {
    throw new Error("a fault");
  };
  expect(await spindle.flush()).toBe(false);
  delete reporter.pack;
});

test.each([400, 401, 403, 404, 413, 415, 422])("a %i is never tried again", async (status) => {
  const reports = await server((response) => reply(response, status));
  const spindle = client({ url: reports.url, retries: 5 });
  spindle.saved("r");
  await spindle.flush();
  expect(reports.arrivals).toHaveLength(1);
  expect(spindle.stats()).toMatchObject({ retries: 0, dropped: { failed: 1 } });
});

test("a server that starts again is found again", async () => {
  const first = await server();
  const { port, url } = first;
  const spindle = client({ url, retries: 8 });
  spindle.saved("before");
  await spindle.flush();
  await first.stop();
  spindle.saved("between");
  const flushed = spindle.flush();
  await vi.waitUntil(() => spindle.stats().retries > 0, { timeout: 10_000 });
  const second = await server(accept, port);
  expect(await flushed).toBe(true);
  expect(second.events.map((event) => event.run_id)).toEqual(["between"]);
  expect(spindle.stats()).toMatchObject({ sent: 2, dropped: { failed: 0 } });
});

test("close gives up what a hanging server holds, within its time", async () => {
  const reports = await server(hang);
  const spindle = client({ url: reports.url, requestTimeoutMs: 60_000 });
  spindle.saved("r");
  await Promise.all([spindle.flush(50), reports.until(() => reports.arrivals.length === 1)]);
  expect(spindle.stats().waiting).toBe(1);
  expect(await spindle.close(50)).toBe(false);
  expect(spindle.stats()).toMatchObject({ waiting: 0, dropped: { closed: 1 } });
});

test("a fetch that ignores signals and never answers does not hold close either", async () => {
  const spindle = client({ url: "http://127.0.0.1:1", fetch: () => new Promise(() => {}) });
  spindle.saved("r");
  expect(await spindle.close(20)).toBe(false);
  expect(made(spindle.stats())).toBe(1);
});

test.each([
  ["no address", { url: "not an address" }],
  ["another scheme", { url: "ftp://host" }],
  ["a key no header can hold", { url: "http://127.0.0.1:1", apiKey: "k\u0000\u20ac" }],
  [
    "a fetch that throws",
    {
      url: "http://127.0.0.1:1",
      fetch: () => {
        throw new Error("no");
      },
    },
  ],
  ["numbers out of bounds", { url: "http://127.0.0.1:1", queueEvents: -5, batchEvents: Number.NaN, retries: -1 }],
  [
    "a logger that throws",
    {
      url: "http://127.0.0.1:1",
      warn: () => {
        throw new Error("no");
      },
    },
  ],
])("%s in the settings loses events, counted, and throws nothing", async (_, options) => {
  const spindle = client(options as Options);
  spindle.saved("r");
  expect(await spindle.flush()).toBe(true);
  expect(spindle.stats()).toMatchObject({ sent: 0, dropped: { failed: 1 } });
});

test("each kind of warning comes once a minute and names numbers, never the key or the address", async () => {
  const warnings: string[] = [];
  const spindle = client({
    url: (await nowhere()).replace("http://", "http://sp_key_secret:x@"),
    queueEvents: 5,
    warn: (message) => warnings.push(message),
  });
  for (let at = 0; at < 100; at++) spindle.saved("r");
  await spindle.flush();
  spindle.saved("r");
  await spindle.flush();
  expect(warnings).toEqual([expect.stringMatching(/queue_full 1,/), expect.stringMatching(/failed 5,/)]);
  expect(warnings.join()).not.toMatch(/secret|127/);
});

test("a stream of garbage in place of HTTP is a failed batch", async () => {
  const { createServer } = await import("node:net");
  const garbage = createServer((socket) => socket.on("error", () => {}).end("\u0000\u0001 what is this\r\n\r\n"));
  await new Promise<void>((listening) => garbage.listen(0, "127.0.0.1", listening));
  const { port } = garbage.address() as { port: number };
  await new Promise((done) => connect(port).on("close", done).resume());
  const spindle = client({ url: `http://127.0.0.1:${port}` });
  spindle.saved("r");
  await spindle.flush();
  expect(spindle.stats().dropped.failed).toBe(1);
  garbage.close();
});
