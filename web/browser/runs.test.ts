import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { snippets } from "../src/parts/snippets";
import { launch, Visitor } from "./browser";
import { type Event, Server, until } from "./server";

const MODELS = ["gpt-4o", "gpt-4o-mini", "claude-sonnet-4-5"];
const RUNS = 240;

let server: Server;
let browser: Browser;
/** When the oldest run of the tests began. */
const began = Date.now() - 40 * 60_000;

beforeAll(async () => {
  [server, browser] = await Promise.all([Server.start(), launch()]);
  await server.report(Array.from({ length: RUNS }, (_, index) => call(index)).flat());
});
afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

/** A model call, and every tenth time an agent that failed. */
function call(index: number): Event[] {
  const timestamp = new Date(began + index * 5_000).toISOString();
  const name = `job-${String(index).padStart(3, "0")}`;
  const common = {
    name,
    run_id: `run-${index}`,
    timestamp,
    tags: [index % 2 === 0 ? "even" : "odd", ...(index % 3 === 0 ? ["third"] : [])],
    user_email: `${["ada", "alan"][index % 2]}@example.com`,
    metadata: { env: index % 4 === 0 ? "prod" : "dev" },
  };
  if (index % 10 === 0) {
    const error = { name: "TimeoutError", message: "the page did not answer" };
    return [{ ...common, type: "agent", agent: "fetcher", error, duration_ms: 900 }];
  }
  return [
    {
      ...common,
      type: "llm",
      agent: "writer",
      model: MODELS[index % 3],
      prompt_tokens: 100 + index,
      completion_tokens: 20,
      duration_ms: 100 + index * 10,
      input: [{ role: "user", content: `question number ${index}` }],
      output: { role: "assistant", content: `answer number ${index}` },
    },
  ];
}

/** Names of the runs in the table, from the top. */
function shownNames(page: Page): Promise<string[]> {
  return page.getByRole("grid").locator("[role=row] a").allTextContents();
}

/**
 * Names of the rows in view and their distances from the top of the table, in pixels. Waits until the rows at the
 * scroll position are rendered: the list renders them after the scroll event.
 */
async function readerView(page: Page): Promise<[string, number][]> {
  const rendered = () =>
    page.getByRole("grid").evaluate((grid) => {
      const frame = grid.getBoundingClientRect();
      const [head, ...rows] = [...grid.querySelectorAll("[role=row]")].map((row) => {
        const { top, bottom } = row.getBoundingClientRect();
        return { name: row.querySelector("a")?.textContent ?? "", top: top - frame.top, bottom: bottom - frame.top };
      });
      const from = head?.bottom ?? 0;
      const inView = rows.filter((row) => row.bottom > from && row.top < grid.clientHeight);
      const isCovered =
        inView.some((row) => row.top < from + 1) && inView.some((row) => row.bottom > grid.clientHeight - 1);
      return isCovered && inView.map(({ name, top }): [string, number] => [name, top]);
    });
  return until("the rows at the scroll position are rendered", rendered);
}

/** Names the API answers. */
async function askedNames(query: string): Promise<string[]> {
  const page = await server.api(`/api/run?limit=20&${query}`);
  return page.data.map((run: { name: string }) => run.name);
}

/** Waits until the table begins with what the API answers. */
async function agrees(page: Page, query: string) {
  const asked = await askedNames(query);
  const isSo = async () => {
    const shown = await shownNames(page);
    // The table asks for more than twenty at once; it may show no fewer, and where these are all, no more.
    const isAll = asked.length < 20;
    return (
      (isAll ? shown.length === asked.length : shown.length >= 20) && asked.every((name, at) => shown[at] === name)
    );
  };
  await until(`the table says what ${query} answers: ${asked}`, isSo, 15_000);
}

/** Chooses or types a value of a field with choices. */
async function choose(page: Page, label: string, value: string) {
  const field = page.getByRole("combobox", { name: label, exact: true });
  await field.fill(value);
  await field.press("Enter");
}

describe("the filters of the runs", () => {
  it("show what the API answers, one after the other, and go as they came", async () => {
    const visitor = await Visitor.signedIn(browser, server);
    const { page } = visitor;
    await visitor.goto("/runs");
    await agrees(page, "");
    await page.getByText(`${RUNS} runs`).waitFor();

    await page.getByRole("combobox", { name: "Model" }).click();
    await page.getByRole("option", { name: /claude-sonnet-4-5/ }).click();
    await agrees(page, "model=claude-sonnet-4-5");
    await page.getByRole("button", { name: /Remove the filter Model/ }).click();
    await choose(page, "Status", "error");
    await agrees(page, "status=error");
    await page.getByRole("button", { name: "More filters" }).click();
    await choose(page, "All of these tags", "even");
    await choose(page, "All of these tags", "third");
    await agrees(page, "status=error&tags_all=even,third");
    await page.getByLabel("Metadata key").fill("env");
    await page.getByLabel("Metadata value").fill("prod");
    await page.getByRole("button", { name: "Add", exact: true }).click();
    await agrees(page, "status=error&tags_all=even,third&metadata.env=prod");
    await visitor.checkAccessibility();
    await page.getByRole("button", { name: "Clear all" }).click();
    await page.getByLabel("Latency from (seconds)").fill("1.5");
    await page.getByLabel("Latency to (seconds)").fill("1.8");
    await page.getByLabel("Latency to (seconds)").press("Enter");
    await agrees(page, "min_latency_s=1.5&max_latency_s=1.8");
    await page.getByRole("columnheader", { name: "Latency" }).getByRole("button").click();
    await agrees(page, "min_latency_s=1.5&max_latency_s=1.8&sort=-latency_s");

    // The link alone reproduces what is seen.
    await page.getByRole("button", { name: "Columns" }).click();
    await page.getByRole("region", { name: "Columns" }).getByLabel("Input").uncheck();
    await page.keyboard.press("Escape");
    const heads = await page.getByRole("columnheader").allTextContents();
    const other = await Visitor.signedIn(browser, server);
    await other.goto(page.url());
    await agrees(other.page, "min_latency_s=1.5&max_latency_s=1.8&sort=-latency_s");
    expect(await other.page.getByRole("columnheader").allTextContents()).toEqual(heads);
    expect(heads.join()).not.toContain("Input");
    await other.leave();
    await visitor.leave();
  });

  it("say what is wrong with a value and keep it, and what to do when nothing matches", async () => {
    const visitor = await Visitor.signedIn(browser, server);
    const { page } = visitor;
    await visitor.goto("/runs");
    await page.getByRole("button", { name: "More filters" }).click();
    await page.getByLabel("Cost from (USD)").fill("much");
    await page.getByLabel("Cost from (USD)").press("Enter");
    await page.getByRole("alert").getByText("`min_cost` cannot be `much`").waitFor();
    expect(await page.getByLabel("Cost from (USD)").inputValue()).toBe("much");
    await page.getByLabel("Cost from (USD)").fill("");
    await page.getByLabel("Cost from (USD)").press("Enter");
    await page.keyboard.press("Escape");
    await page.getByRole("searchbox").fill("no run says this");
    await page.getByRole("heading", { name: "No runs match" }).waitFor();
    await page.getByRole("button", { name: "Clear filters" }).click();
    await agrees(page, "");
    await visitor.leave();
  });

  it("are saved under a name in the browser", async () => {
    const visitor = await Visitor.signedIn(browser, server);
    const { page } = visitor;
    await visitor.goto("/runs?status=error&sort=started_at");
    const menu = page.getByRole("button", { name: "Saved filters" });
    await menu.click();
    await page.getByLabel("Name of this view").fill("failures");
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await visitor.goto("/runs");
    await menu.click();
    await page.getByRole("button", { name: "failures", exact: true }).click();
    await agrees(page, "status=error&sort=started_at");
    await menu.click();
    await page.getByRole("button", { name: "Delete failures" }).click();
    await page.getByText("No saved filters yet").waitFor();
    expect(JSON.stringify(await page.evaluate(() => ({ ...localStorage })))).not.toContain("sp_");
    await visitor.leave();
  });
});

describe("the list of runs", () => {
  it("is walked with keys, opened, and found again as it was left", async () => {
    const visitor = await Visitor.signedIn(browser, server);
    const { page } = visitor;
    await visitor.goto("/runs");
    await agrees(page, "");
    await visitor.screenshot("runs-light");
    await page.keyboard.press("/");
    await page.keyboard.type("number 17");
    await agrees(page, "q=number+17");
    await page.keyboard.press("Escape");
    await page.goBack();
    await agrees(page, "");

    for (const key of ["j", "j", "x", "j", "x"]) await page.keyboard.press(key);
    const link = await page.getByRole("link", { name: "Compare" }).getAttribute("href");
    expect(new URL(`http://x${link}`).searchParams.get("a")).toBe(`run-${RUNS - 2}`);
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });

    const grid = page.getByRole("grid");
    for (let step = 0; step < 40; step++) await page.keyboard.press("j");
    const row = grid.locator("[aria-selected=true] a");
    const name = (await row.textContent()) ?? "";
    const inView = () =>
      until("the row of the cursor is in view", async () => (await readerView(page)).find(([shown]) => shown === name));
    const before = await inView();
    expect(await grid.evaluate((element) => element.scrollTop)).toBeGreaterThan(200);
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/runs\/run-/);
    await page.goBack();
    await row.waitFor();
    expect(await row.textContent()).toBe(name);
    expect(await inView()).toEqual(before);
    await page.keyboard.press("Escape");
    await row.waitFor({ state: "detached" });
    // To the last run, page after page.
    const atEnd = async () => {
      await page.keyboard.press("End");
      return (await shownNames(page)).includes("job-000");
    };
    await until("the last run", atEnd);
    await visitor.leave();
  });

  it("follows live changes without moving the position of the reader", async () => {
    const visitor = await Visitor.signedIn(browser, server, { dark: true });
    const { page } = visitor;
    const stream = page.waitForResponse((answer) => answer.url().includes("/api/run/live"));
    await visitor.goto("/runs");
    await agrees(page, "");
    await visitor.screenshot("runs-dark");
    await page.getByLabel("Live").check();
    await stream;
    const report = (run_id: string, name: string, more: Event = {}) =>
      server.report([{ run_id, name, type: "agent", timestamp: new Date().toISOString(), ...more }]);
    await report("live-1", "live-one_start");
    await until("a new run on top", async () => (await shownNames(page))[0] === "live-one");
    await report("live-1", "live-one_end", { output: "done" });
    await page.getByRole("row", { name: /success.*live-one/ }).waitFor();

    const grid = page.getByRole("grid");
    await grid.evaluate((element) => element.scrollTo({ top: 900 }));
    const seen = await readerView(page);
    await report("live-2", "live-two");
    await page.getByRole("button", { name: "1 new run" }).waitFor();
    await visitor.screenshot("runs-live-waiting");
    expect(await readerView(page)).toEqual(seen);
    await page.getByRole("button", { name: "1 new run" }).click();
    await until("it is shown", async () => (await shownNames(page))[0] === "live-two");

    // A restart of the server ends the stream; it comes back by itself.
    await server.kill();
    await page.getByText("Connection lost").waitFor();
    await server.again();
    await page.getByText("Connection lost").waitFor({ state: "hidden" });
    await report("live-3", "live-three");
    await until("live goes on", async () => (await shownNames(page))[0] === "live-three");
    await visitor.leave();
  });
});

describe("the programs for the first run", () => {
  const folder = mkdtempSync(join(tmpdir(), "spindle-first-"));
  const repository = fileURLToPath(new URL("../..", import.meta.url));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  beforeAll(async () => {
    // What `npm install` of the package leaves; its own suite checks types and builds the package.
    const library = join(folder, "node_modules/@spindle/client");
    const compiler = join(repository, "web/node_modules/typescript/bin/tsc");
    const project = join(repository, "clients/typescript/tsconfig.build.json");
    const types = join(repository, "web/node_modules/@types");
    const flags = ["--noCheck", "--declaration", "false", "--typeRoots", types, "--outDir", join(library, "dist")];
    await promisify(execFile)(process.execPath, [compiler, "-p", project, ...flags]);
    writeFileSync(join(library, "package.json"), JSON.stringify({ type: "module", main: "dist/index.js" }));
  });

  it.each([
    ["python", "python3"],
    ["typescript", process.execPath],
    ["opentelemetry", process.env.CLIENTS_CURRENT_PYTHON ?? "python3"],
    ["curl", "sh"],
  ])("report a model call as they are: %s", async (id, program) => {
    const snippet = snippets(server.url, server.key).find((one) => one.id === id);
    const file = join(folder, `${id}.mjs`);
    writeFileSync(file, snippet?.program ?? "");
    const exported = [...(snippet?.setup ?? "").matchAll(/^export (\w+)=("?)(.*)\2$/gm)];
    const env = {
      ...process.env,
      PYTHONPATH: join(repository, "clients/python/src"),
      ...Object.fromEntries(exported.map(([, name, , value]) => [name, value])),
    };
    const calls = async () => (await server.api("/api/run?type=llm&model=gpt-4o-mini&q=Say+hello")).data;
    const before = (await calls()).length;
    await promisify(execFile)(program, [file], { env });
    await until("its run", async () => (await calls()).length > before);
    expect((await calls())[0]).toMatchObject({ prompt_tokens: 9, completion_tokens: 3, cost: 0.00000315 });
  });
});

describe("model calls", () => {
  it("show prompt, answer and figures, and take feedback", async () => {
    const visitor = await Visitor.signedIn(browser, server);
    const { page } = visitor;
    await visitor.goto("/calls?q=number+23");
    await page.getByText("question number 239").waitFor();
    await page.getByRole("row").filter({ hasText: "question number 239" }).click();
    const pane = page.getByRole("region", { name: "Selected call" });
    await pane.getByText("answer number 239").waitFor();
    expect(new URL(page.url()).searchParams.get("call")).toBe("run-239");
    await pane.getByRole("button", { name: "Good answer" }).click();
    await pane.getByLabel("With a comment").fill("well said");
    await pane.getByRole("button", { name: "Good", exact: true }).click();
    await until("the feedback is kept", async () => {
      const run = await server.api("/api/run/run-239");
      return run.feedback?.rating === "positive" && run.feedback.comment === "well said";
    });
    await visitor.checkAccessibility();
    await visitor.screenshot("calls-light");
    await visitor.leave();

    const reader = await Visitor.signedIn(browser, server, { dark: true, phone: true });
    await reader.goto("/calls?feedback=positive");
    await reader.page.getByText("question number 239").waitFor();
    expect(await reader.page.getByRole("button", { name: "Good answer" }).getAttribute("aria-pressed")).toBe("true");
    await reader.checkAccessibility();
    await reader.screenshot("calls-phone-dark");
    await reader.leave();
  });
});
