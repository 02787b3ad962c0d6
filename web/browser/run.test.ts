import { execFileSync } from "node:child_process";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { launch, Visitor } from "./browser";
import { type Event, Server, until } from "./server";

const START = Date.now() - 120_000;
const at = (ms: number) => new Date(START + ms).toISOString();
const HARD_ID = "a/b?c#d%2F";
const LARGE = "word ".repeat(180_000);
const base = { app_id: "shop" };

/** A trace with what makes traces hard: an error, a clock that is early, a span without an end, and many of them. */
const TRACE: Event[] = [
  { ...base, name: "plan_trip_start", type: "agent", run_id: "trip", timestamp: at(0), input: { city: "Paris" } },
  {
    ...base,
    name: "llm_call",
    type: "llm",
    run_id: "ask",
    parent_run_id: "trip",
    timestamp: at(2_000),
    duration_ms: 1_500,
    model: "gpt-4o-mini",
    prompt_tokens: 120,
    completion_tokens: 30,
    input: [{ role: "user", content: "Plan a day in Paris" }],
    output: { role: "assistant", content: "Begin at the river.", tool_calls: [] },
  },
  {
    ...base,
    name: "weather_error",
    metadata: { retries: 3 },
    type: "tool",
    run_id: "weather",
    parent_run_id: "trip",
    timestamp: at(2_500),
    error: { name: "TimeoutError", message: "no answer within 30 s", stack: "TimeoutError\n  at call (tools.py:42)" },
  },
  { ...base, name: "early_call", type: "tool", run_id: "early", parent_run_id: "ask", timestamp: at(100), output: 1 },
  { ...base, name: "open_start", type: "tool", run_id: "open", parent_run_id: "trip", timestamp: at(2_600) },
  ...Array.from({ length: 300 }, (_, index) => ({
    ...base,
    name: "step_call",
    type: "tool",
    run_id: `step-${index}`,
    parent_run_id: "trip",
    timestamp: at(3_000 + index * 10),
    duration_ms: 8,
    output: index,
  })),
  { ...base, name: "plan_trip_end", run_id: "trip", timestamp: at(8_000), output: { text: LARGE } },
];
const OTHERS: Event[] = [
  { ...base, name: "plan_trip_start", type: "agent", run_id: "trip-2", timestamp: at(0), input: { city: "Rome" } },
  { ...base, name: "plan_trip_end", run_id: "trip-2", timestamp: at(9_000), output: { text: "Begin at the forum." } },
  {
    ...base,
    name: "quote_call",
    type: "agent",
    run_id: HARD_ID,
    timestamp: at(0),
    tags: ["it's"],
    input: "it's $(id) `id` !! \u202e \x1b[2J 'quoted'\nEND",
    output: { done: true },
    metadata: { note: "'; exit 1; '" },
  },
];
const TRIP = "/runs/trip?app_id=shop";

let server: Server;
let browser: Browser;

beforeAll(async () => {
  [server, browser] = await Promise.all([Server.start(), launch()]);
  await server.report([...TRACE, ...OTHERS]);
  await until("the whole trace", async () => (await tree()).length === 305);
});
afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

/** A run in the shape of the API, as far as it is looked at here. */
type Seen = {
  run_id: string;
  saved: boolean;
  llm_calls: number;
  error_count: number;
  feedback_history: { rating: string; comment: string }[];
};
async function tree(): Promise<Seen[]> {
  return (await server.api("/api/run/trip/tree?app_id=shop")).data;
}
const read = (id: string) => server.api<Seen>(`/api/run/${encodeURIComponent(id)}?app_id=shop`);

const isFulfilled = ({ status }: PromiseSettledResult<unknown>) => status === "fulfilled";

describe("a trace", () => {
  it("is walked with keys, narrowed, and comes back from its address", async () => {
    const visitor = await Visitor.signedIn(browser, server);
    const { page } = visitor;
    await visitor.goto(TRIP);
    const spans = page.getByRole("treegrid", { name: "Spans of the trace" });
    await spans.waitFor();
    const all = await tree();
    const counts = (rows: number) => page.locator(`[role=treegrid][aria-rowcount="${rows}"]`).waitFor();
    await counts(all.length + 1);
    // Only the lines one sees are in the page.
    expect(await spans.getByRole("row").count()).toBeLessThan(60);
    await page.getByText("1 span begins before its parent").waitFor();
    await visitor.checkAccessibility();
    await visitor.screenshot("run-trace");

    // The root is chosen: j goes to its first child, Enter shows it.
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    const panel = page.getByRole("region", { name: "Selected span" });
    await panel.getByText("Plan a day in Paris").waitFor();
    expect(new URL(page.url()).searchParams.get("span")).toBe("ask");
    await page.keyboard.press("ArrowLeft");
    await counts(all.length);
    await page.keyboard.press("ArrowRight");
    await counts(all.length + 1);

    await page.getByLabel("Errors only").check();
    await page.getByText("1 of 305 spans").waitFor();
    await spans.getByText("weather").click();
    await panel.getByText("no answer within 30 s").waitFor();
    await panel.getByText("Stack").click();
    await panel.getByText("tools.py:42").waitFor();
    await panel.getByRole("button", { name: "Zoom to its time" }).click();
    // Controls write the address when the hand rests.
    await page.waitForURL((url) => url.searchParams.get("errors") === "true" && url.searchParams.has("zoom"));
    await page.reload();
    await panel.getByText("no answer within 30 s").waitFor();
    expect(await page.getByLabel("Errors only").isChecked()).toBe(true);
    // Escape leaves the zoom first.
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Whole time" }).waitFor({ state: "detached" });
    expect(new URL(page.url()).pathname).toContain("/runs/");

    // What a span says beside its messages.
    await panel.getByRole("tab", { name: /^Attributes/ }).click();
    await panel.getByText("retries").waitFor();
    await visitor.checkAccessibility();
    await panel.getByRole("tab", { name: /^Events/ }).click();
    await panel.getByText("weather_error").waitFor();
    await panel.getByRole("tab", { name: "Raw" }).click();
    await panel.getByRole("region", { name: "Run" }).getByText("run_id", { exact: true }).waitFor();
    await panel.getByRole("tab", { name: "Messages" }).click();

    await page.getByLabel("Errors only").uncheck();
    await page.getByLabel("Find spans by text").fill("open");
    await page.getByText("1 of 305 spans").waitFor();
    await visitor.leave();
  });

  it("folds what is large, and shows it as text in steps", async () => {
    const visitor = await Visitor.signedIn(browser, server, { dark: true });
    const { page } = visitor;
    await visitor.goto(`${TRIP}&tab=payload`);
    const output = page.getByRole("region", { name: "Output" });
    await output.getByText(`of ${LARGE.length.toLocaleString("en")} characters`).waitFor();
    expect((await page.locator("main").textContent())?.length).toBeLessThan(10_000);
    await output.getByRole("button", { name: "Show 40,000 more" }).click();
    await until("the next step is shown", async () => ((await output.textContent())?.length ?? 0) > 40_000);
    await output.getByRole("button", { name: "Text" }).click();
    await output.getByRole("button", { name: /^Show .* more$/ }).waitFor();
    await visitor.checkAccessibility();
    await page.getByRole("tab", { name: /^Events/ }).click();
    await page.getByText("plan_trip_start").click();
    await page.getByRole("region", { name: "Payload" }).getByText("Paris").waitFor();
    await visitor.checkAccessibility();
    await visitor.leave();
  });

  it("can be read on a phone", async () => {
    const visitor = await Visitor.signedIn(browser, server, { phone: true });
    await visitor.goto(`${TRIP}&span=ask`);
    await visitor.page.getByText("Plan a day in Paris").waitFor();
    expect(await visitor.page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390);
    await visitor.screenshot("run-phone");
    await visitor.leave();
  });
});

describe("a run", () => {
  it("is rated and saved, and shows both once the server does", async () => {
    const visitor = await Visitor.signedIn(browser, server);
    const { page } = visitor;
    await visitor.goto("/runs/trip-2?app_id=shop&tab=details");
    await page.getByRole("button", { name: "Feedback" }).click();
    await page.getByLabel("Positive").check();
    await page.getByLabel("Comment (optional)").fill("it's <b>good</b>");
    await visitor.checkAccessibility();
    await page.getByRole("dialog").getByRole("button", { name: "Give feedback" }).click();
    await page.getByText("it's <b>good</b>").waitFor();
    await page.getByRole("button", { name: "Save" }).click();
    await until("feedback and saving", async () => {
      const run = await read("trip-2");
      return run.saved && run.feedback_history.length === 1;
    });
    const { feedback_history } = await read("trip-2");
    expect(feedback_history).toMatchObject([{ rating: "positive", comment: "it's <b>good</b>" }]);
    await page.getByText("on its way").first().waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Saved", pressed: true }).click();
    await until("unsaving", async () => !(await read("trip-2")).saved);
    await visitor.leave();
  });

  it("lists each of its model calls", async () => {
    const call = (model: string, ms: number) => ({
      ...base,
      name: "llm_call",
      type: "llm",
      run_id: "several",
      timestamp: at(ms),
      model,
      prompt_tokens: 100,
      completion_tokens: 20,
    });
    await server.report([call("gpt-4o", 1_000), call("gpt-4o-mini", 2_000), call("my-model", 3_000)]);
    const visitor = await Visitor.signedIn(browser, server);
    const { page } = visitor;
    await visitor.goto("/runs/several?app_id=shop&tab=calls");
    const rows = page.getByLabel("Model calls").locator("tbody tr");
    await rows.nth(2).waitFor();
    expect(await rows.locator("td:nth-child(2)").allTextContents()).toEqual(["gpt-4o", "gpt-4o-mini", "my-model"]);
    await rows.nth(2).getByText("the model has no price").waitFor();
    await visitor.checkAccessibility();
    await visitor.screenshot("run-calls");
    await server.report(Array.from({ length: 100 }, (_, nth) => call("gpt-4o", 4_000 + nth)));
    await until("the run has more calls", async () => (await read("several")).llm_calls === 103);
    await visitor.goto("/runs/several?app_id=shop&tab=calls");
    await rows.nth(99).waitFor();
    await page.getByRole("button", { name: "Show 3 more" }).click();
    await rows.nth(102).waitFor();
    await visitor.leave();
  });

  it("is reported again by the command that the page gives", async () => {
    const visitor = await Visitor.signedIn(browser, server);
    const { page } = visitor;
    await visitor.context.grantPermissions(["clipboard-read", "clipboard-write"]);
    await visitor.goto(`/runs/${encodeURIComponent(HARD_ID)}?app_id=shop`);
    await page.getByRole("button", { name: "Copy", exact: true }).first().click();
    const dialog = page.getByRole("dialog", { name: "Copy" });
    const copied = async (label: string) => {
      await page.evaluate(() => navigator.clipboard.writeText(""));
      await dialog.getByRole("button", { name: label }).click();
      return until("the copy", () => page.evaluate(() => navigator.clipboard.readText()));
    };
    expect(JSON.parse(await copied("Copy JSON")).run_id).toBe(HARD_ID);
    const env = { ...process.env, SPINDLE_API_KEY: server.key };
    const run = (command: string) => JSON.parse(execFileSync("sh", { input: command, env, encoding: "utf8" }));
    expect(run(await copied("Copy curl to read")).run_id).toBe(HARD_ID);
    const command = await copied("Copy curl to report");
    expect(command).not.toContain(server.key);
    expect(run(command)).toMatchObject({ rejected: 0, accepted: 2 });
    const again = JSON.parse(command.match(/^\{.*\}$/m)?.[0] ?? "").events[0].run_id;
    await until("the run again", () => read(again).catch(() => undefined));
    const body = { run_id_a: HARD_ID, run_id_b: again };
    const { differences } = await server.api("/api/run/compare", { method: "POST", json: body });
    expect(differences).toMatchObject({ input_equal: true, output_equal: true, fields: [], tags_only_a: [] });
    await visitor.leave();
  });

  it("shows ids that are larger than the numbers of JavaScript", async () => {
    const event = { ...base, name: "exact_call", type: "tool", run_id: "exact", timestamp: at(0), output: { id: 1 } };
    const body = JSON.stringify({ events: [event] }).replace('"id":1', '"id":12345678901234567891');
    const headers = { "Content-Type": "application/json" };
    await server.api("/api/report", { method: "POST", body, headers, token: server.key });
    const visitor = await Visitor.signedIn(browser, server);
    await visitor.goto("/runs/exact?app_id=shop");
    await visitor.page.getByText("12345678901234567891").waitFor();
    await visitor.leave();
  });

  it("names the client library that reported it, and leads to the app's runs of this version", async () => {
    const one = { ...base, name: "clerk_call", type: "agent", timestamp: at(0), output: 1 };
    const versions = { old: "spindle-client-python/0.1.0", new: "spindle-client-python/0.2.0" };
    await server.report(
      Object.entries(versions).map(([run_id, spindle_client]) => ({ ...one, run_id, metadata: { spindle_client } })),
    );
    await until("both runs", async () => (await Promise.allSettled(["old", "new"].map(read))).every(isFulfilled));
    const visitor = await Visitor.signedIn(browser, server);
    const { page } = visitor;
    await visitor.goto("/runs/new?app_id=shop&tab=details");
    await page.getByRole("link", { name: "spindle-client-python 0.2.0" }).click();
    await page.getByRole("heading", { name: "Runs", level: 1 }).waitFor();
    await page.getByText("clerk").first().waitFor();
    expect(new URL(page.url()).searchParams.get("metadata.spindle_client")).toBe(versions.new);
    expect(await page.getByText("clerk").count()).toBe(1);
    await visitor.leave();
  });

  it("that is not there yet is waited for, and one that goes is followed to its end", async () => {
    const visitor = await Visitor.signedIn(browser, server);
    const { page } = visitor;
    await visitor.goto("/runs/late?app_id=shop");
    await page.getByText("Run late not found").waitFor();
    const start = { ...base, name: "late_start", type: "agent", run_id: "late", timestamp: new Date().toISOString() };
    await server.report([start]);
    await page.getByText("Running, updated live").waitFor();
    await server.report([{ ...start, name: "late_end", timestamp: new Date().toISOString(), output: "came late" }]);
    await page.getByText("came late").waitFor();
    await page.getByText("Running, updated live").waitFor({ state: "detached" });
    await page.keyboard.press("Escape");
    await page.getByRole("heading", { name: "Runs", level: 1 }).waitFor();
    await visitor.leave();
  });
});

describe("two runs", () => {
  it("are compared as the API does, and change sides", async () => {
    const visitor = await Visitor.signedIn(browser, server);
    const { page } = visitor;
    await visitor.goto(TRIP);
    await page.getByRole("button", { name: "Compare" }).click();
    await page.getByRole("dialog").getByRole("link", { name: "trip-2" }).click();
    await page.getByRole("heading", { name: "Compare", level: 1 }).waitFor();
    await page.getByText("8.00 s").waitFor();
    await page.getByText("+1.00 s (+13 %), B is worse").waitFor();
    const input = page.getByRole("region", { name: "Input", exact: true });
    await input.getByText("Paris").waitFor();
    await input.getByText("Rome").waitFor();
    await visitor.checkAccessibility();
    await visitor.screenshot("compare");
    await page.getByRole("button", { name: "Swap sides" }).click();
    await page.getByText("−1.00 s (−11 %), B is better").waitFor();
    await visitor.goto("/compare?a=trip&b=missing");
    await page.getByText("Run B, missing not found").waitFor();
    await visitor.leave();
  });
});
