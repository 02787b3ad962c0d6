import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { launch, Visitor } from "./browser";
import { Server } from "./server";

const PAGES = [
  "/runs",
  "/runs/hostile",
  "/compare?a=hostile&b=plain",
  "/calls",
  "/threads",
  "/threads/hostile-thread",
  "/overview",
  "/datasets",
  "/operations",
];
const MARKUP = `<script>window.taken=1</script><img src=x onerror="window.taken=1"><svg onload="window.taken=1">`;
const TURNED = "\u202egnp.exe \u2067مرحبا بالعالم";

let server: Server;
let browser: Browser;

beforeAll(async () => {
  [server, browser] = await Promise.all([Server.start(), launch()]);
});
afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

/** A run whose every field is an attack. */
function hostile(text: string, run_id: string) {
  const at = Date.now() - 60_000;
  const time = (ms: number) => new Date(at + ms).toISOString();
  const metadata = { user_email: text, agent: text, [text.slice(0, 60)]: text };
  const chat = [{ role: text, content: text }];
  return [
    {
      name: text,
      type: "agent",
      run_id,
      timestamp: time(0),
      input: chat,
      metadata,
      tags: [text],
      thread_id: "hostile-thread",
    },
    {
      name: "llm_call",
      type: "llm",
      run_id: `${run_id}-call`,
      parent_run_id: run_id,
      timestamp: time(500),
      model: text,
      input: chat,
      output: text,
    },
    { name: "agent_error", run_id, timestamp: time(900), error: { name: text, message: text, stack: text } },
    { name: "chat", run_id, timestamp: time(950), thread_id: "hostile-thread", role: "user", content: text, metadata },
    { name: "feedback", run_id, timestamp: time(970), rating: "negative", comment: text },
    { name: "saved", run_id, timestamp: time(980) },
  ];
}

describe("without any data", () => {
  it.each([
    ["/calls", "No model calls yet"],
    ["/threads", "No threads yet"],
    ["/overview", "No runs yet: report the first one"],
    ["/datasets", "No saved runs"],
  ])("%s says: %s", async (path, title) => {
    const visitor = await Visitor.signedIn(browser, server);
    await visitor.goto(path);
    await visitor.page.getByRole("heading", { name: title }).waitFor();
    await visitor.checkAccessibility();
    await visitor.leave();
  });

  it("says how to report the first run with a key made in place, and shows the run as soon as it is there", async () => {
    const visitor = await Visitor.signedIn(browser, server);
    const { page } = visitor;
    await visitor.goto("/runs");
    await page.getByText(`export SPINDLE_URL=${server.url}`).waitFor();
    await visitor.checkAccessibility();
    await visitor.screenshot("runs-empty");
    await page.getByRole("button", { name: "Create key" }).click();
    const setup = page.getByText(/SPINDLE_API_KEY=sp_key_[0-9a-f]{64}/);
    await setup.waitFor();
    const key = /SPINDLE_API_KEY=(sp_key_[0-9a-f]+)/.exec(await setup.innerText())?.[1];
    await page.getByRole("tab", { name: "OpenTelemetry" }).click();
    await page.getByText(`Authorization=Bearer%20${key}`).waitFor();
    await visitor.checkAccessibility();
    await page.getByRole("tab", { name: "curl" }).click();
    const program = await page.getByText("curl $SPINDLE_URL/api/report").innerText();
    const env = { ...process.env, SPINDLE_URL: server.url, SPINDLE_API_KEY: key };
    await promisify(execFile)("sh", ["-c", program], { env });
    const row = page.getByRole("row").filter({ hasText: "hello" });
    await row.waitFor();
    await page.getByRole("status").getByText("1 run", { exact: true }).waitFor();
    // The key stays until it is dismissed.
    await page.getByText(`${key}`).waitFor();
    await visitor.checkAccessibility();
    await page.getByRole("button", { name: "Dismiss" }).click();
    await page.getByText(`${key}`).waitFor({ state: "detached" });
    // It is a model call with a cost.
    expect(await row.innerText()).toMatch(/llm/);
    expect(await row.innerText()).toMatch(/\$0\.0000/);
    await visitor.leave();
  });
});

describe("hostile payloads", () => {
  it("are shown as text on every page", async () => {
    const text = MARKUP + TURNED;
    const end = { name: "agent_end", run_id: "hostile", timestamp: new Date().toISOString() };
    await server.report([...hostile(text, "hostile"), { ...end, output: { text: text + "y".repeat(900_000) } }]);
    const visitor = await Visitor.signedIn(browser, server, { phone: true });
    const { page } = visitor;
    for (const path of PAGES) {
      await visitor.goto(path);
      await page.waitForLoadState("networkidle");
      expect(await page.evaluate(() => "taken" in window), path).toBe(false);
      expect(await page.locator("main img[src=x], main script, main svg[onload]").count(), path).toBe(0);
      await visitor.checkAccessibility();
      await visitor.screenshot(`hostile-phone${path.split("?")[0]?.replaceAll("/", "-")}`);
    }
    await visitor.leave();
  });
});

describe("an address that does not exist", () => {
  it("is a page for people and JSON for programs", async () => {
    const visitor = await Visitor.signedIn(browser, server);
    const { page } = visitor;
    const answer = await page.goto("/setings/keys");
    expect(answer?.status()).toBe(404);
    await page.getByRole("heading", { name: "Page not found" }).waitFor();
    const other = await visitor.context.request.get("/setings/keys");
    expect(other.status()).toBe(404);
    expect((await other.json()).error).toBe("not_found");
    await visitor.leave();
  });
});

describe("a server that does not answer", () => {
  it("is said after some seconds, and asked again", async () => {
    const visitor = await Visitor.signedIn(browser, server);
    const { page } = visitor;
    let isHanging = true;
    // Never answered while it hangs.
    await page.route(/\/api\/thread\/?\?/, (route) => (isHanging ? undefined : route.continue()));
    await visitor.goto("/threads");
    await page.getByText("Still loading threads after 5 seconds").waitFor();
    await visitor.checkAccessibility();
    isHanging = false;
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByRole("link", { name: "gnp.exe" }).first().waitFor();
    await visitor.leave();
  });
});

describe("the page of the API", () => {
  it("describes every path without a script", async () => {
    const context = await browser.newContext({ javaScriptEnabled: false });
    const page = await context.newPage();
    const refused: string[] = [];
    page.on("console", (message) => refused.push(message.text()));
    await page.goto(`${server.url}/docs`);
    await page.getByRole("link", { name: "POST /api/report" }).click();
    await page.getByRole("heading", { name: "POST /api/report" }).waitFor();
    expect(refused).toEqual([]);
    await context.close();
  });
});

describe("a server that restarts", () => {
  it("is waited for, and the session goes on", async () => {
    const visitor = await Visitor.signedIn(browser, server);
    const { page } = visitor;
    await visitor.goto("/runs");
    // The other pages come while nothing else is to be done.
    await page.waitForLoadState("networkidle");
    await server.kill();
    await page.getByRole("link", { name: "Threads" }).click();
    await page.getByRole("status").getByText("Trying again").waitFor();
    await server.again();
    await page.getByRole("link", { name: "gnp.exe" }).first().waitFor();
    expect(await page.getByText("Trying again").count()).toBe(0);
    await visitor.leave();
  });
});
