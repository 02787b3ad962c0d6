import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { launch, Visitor } from "./browser";
import { Server, until } from "./server";

let server: Server;
let browser: Browser;
/** An administrator, who stays for the whole file. */
let admin: Visitor;
let page: Page;

const MODEL = "house/model 1";
/** More digits than a number of JavaScript carries. */
const PRICE = "0.123456789012345";
const SCHEMA = {
  type: "object",
  required: ["key1", "copies"],
  properties: { key1: { type: "string", minLength: 1 }, copies: { type: "integer", minimum: 1 } },
};

beforeAll(async () => {
  [server, browser] = await Promise.all([Server.start(), launch()]);
  admin = await Visitor.signedIn(browser, server);
  page = admin.page;
  const call = { type: "llm", model: MODEL, input: "hello", output: "good day", duration_ms: 20 };
  const events = [1, 2, 3].map((at) => ({
    ...call,
    name: "llm_call",
    run_id: `call-${at}`,
    timestamp: new Date(Date.now() - at * 60_000).toISOString(),
    tokensUsage: { prompt: 1000, completion: 500 },
    prompt_tokens: 1000,
    completion_tokens: 500,
  }));
  await server.report(events);
});
afterAll(async () => {
  await admin?.leave();
  await browser?.close();
  await server?.stop();
});

const button = (name: string | RegExp) => page.getByRole("button", { name });
const dialog = () => page.getByRole("dialog");

describe("the sections of operations", () => {
  it("show the sections of the role, and deny the others", async () => {
    const sections = async (role: string, closed: string) => {
      const { secret } = await server.makeToken(role);
      const visitor = await Visitor.signedIn(browser, server, { token: secret });
      await visitor.goto(`/operations/${closed}`);
      await visitor.page.getByRole("heading", { name: "Access denied" }).waitFor();
      const found = await visitor.page
        .getByRole("navigation", { name: "Sections" })
        .getByRole("link")
        .allTextContents();
      await visitor.leave();
      return found;
    };
    expect(await sections("viewer", "processes")).toEqual([]);
    expect(await sections("starter", "services")).toEqual(["Processes"]);
    expect(await sections("operator", "prices")).toEqual(["Services", "Pipeline", "Processes"]);
  });

  it("can be used by anybody, in the dark and on a phone", async () => {
    const visitor = await Visitor.signedIn(browser, server, { dark: true, phone: true });
    const names = [
      "services",
      "processes",
      "processes/register",
      "caches",
      "prices",
      "jobs",
      "keys",
      "tokens",
      "projects",
    ];
    for (const name of names) {
      await visitor.goto(`/operations/${name}`);
      await until(`${name} is there`, async () => (await visitor.page.getByText(/^Loading/).count()) === 0);
      await visitor.checkAccessibility();
      const isWider = await visitor.page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
      expect(isWider, `${name} is wider than the window`).toBe(false);
    }
    await visitor.leave();
  });
});

describe("services", () => {
  it("are scanned on demand, shown as the server found them, and compared with before", async () => {
    await admin.goto("/operations/services");
    await page.getByText("No scan yet").waitFor();
    await button("Scan now").click();
    await page.getByText("The newest scan").waitFor();
    const [entry] = (await server.api("/api/platform/scan")).data;
    const { report } = await server.api(`/api/platform/scan/${entry.id}`);
    const rows = page.getByRole("region", { name: "Services of the scan" }).getByRole("row");
    expect(await rows.count()).toBe(Object.keys(report.services).length + 1);
    for (const [key, service] of Object.entries<{ name: string; status: string }>(report.services)) {
      const row = await rows.filter({ has: page.getByText(key, { exact: true }) }).textContent();
      expect(row).toContain(service.name);
      expect(row).toContain(service.status);
    }
    await page.getByRole("region", { name: "Database" }).getByText(report.infrastructure.database.version).waitFor();
    await admin.checkAccessibility();
    await admin.screenshot("operations-services");
    await button("Scan now").click();
    await until("there are two scans", async () => (await button(/^Compare with/).count()) === 2);
    await button(/^Compare with/)
      .last()
      .click();
    await page.getByRole("region", { name: "Comparison" }).waitFor();
    expect(new URL(page.url()).searchParams.get("against")).toBe(entry.id);
  });

  it("whose scan fails say why, and a scan can be given up", async () => {
    await admin.goto("/operations/services");
    await page.route("**/api/platform/discover", (route) =>
      route.fulfill({
        status: 500,
        json: { error: "scan_failed", message: "the scan failed", status: 500, details: "no thread could be made" },
      }),
    );
    await button("Scan now").click();
    await page.getByText("no thread could be made").waitFor();
    await page.unroute("**/api/platform/discover");
    await page.route("**/api/platform/discover", () => undefined);
    await button("Scan now").click();
    await page.getByRole("progressbar", { name: "Scanning" }).waitFor();
    await button("Cancel").click();
    await page.getByText("You canceled the request").waitFor();
    await page.unroute("**/api/platform/discover");
  });
});

describe("the pipeline", () => {
  // A deployment in trouble, which a server of a test is not.
  const process = (role: string, more: object) => ({
    process: `process_${role}`,
    role,
    version: "0.1.0",
    endpoint: `http://${role}:7070`,
    ready: true,
    missing: [],
    silent_ms: 0,
    accepted_events: null,
    stored_events: null,
    dead_lettered_events: null,
    rejected_events: null,
    stalled_partitions: [],
    ...more,
  });
  const letter = {
    id: "0-1",
    reason: "no run_id <img src=x>",
    project_id: "default",
    app_id: "shop",
    at: "2026-11-21T20:00:00.000Z",
    original_topic: "events",
    original_partition: 3,
    original_offset: 120934,
    events: 1,
    kind: "event",
    bytes: 14,
    redriven: false,
  };

  it("is that of the server: what it took and stored, and its log", async () => {
    await admin.goto("/operations/pipeline");
    const { processes, log } = await server.api("/api/internal/pipeline");
    expect(processes).toHaveLength(1);
    expect(processes[0].accepted_events).toBeGreaterThan(0);
    const events = page.getByRole("region", { name: "Events", exact: true });
    await events
      .getByText(/\d(\.\d)?\/s/)
      .first()
      .waitFor();
    await page.getByText(processes[0].endpoint).waitFor();
    await page.getByRole("region", { name: "Event log" }).getByText(log.kind).waitFor();
  });

  it("has rates, lag and disk, says who is not ready and why, and takes dead letters again", async () => {
    let looks = 0;
    await page.route("**/api/internal/pipeline", (route) => {
      looks += 1;
      const missing = [{ part: "store", reason: "ClickHouse does not answer" }];
      const ingest = process("ingest", { accepted_events: 1000 + looks * 200 });
      const stalled = { partition: 12, committed: 5, lag_records: 7, seconds: 332, owner: null, state: "Stable" };
      const stored = { stored_events: looks * 100, dead_lettered_events: 1 };
      const processor = process("processor", { ...stored, stalled_partitions: [stalled] });
      const query = process("query", { ready: false, missing, silent_ms: 12_000 });
      const log = { kind: "kafka", version: "3.9", brokers: 3, topics: 4, lag_records: 321 };
      const at = new Date(1_780_000_000_000 + looks * 2_000).toISOString();
      const disk = { used_bytes: 2 ** 29, max_bytes: 2 ** 30 };
      const processes = [ingest, processor, query];
      const waiting_marks = { runs: 3, oldest_at: "2026-05-01T08:00:00.000Z" };
      route.fulfill({ json: { at, processes, log: { ...log, ...disk }, log_error: null, waiting_marks } });
    });
    let redriven: unknown;
    await page.route("**/api/internal/dead-letters**", (route) => {
      const payload = route.request().url().includes("payload=true") ? { payload: '{"odd": "one"}' } : {};
      if (route.request().method() === "GET") {
        return route.fulfill({ json: { data: [{ ...letter, ...payload, redriven: !!redriven }], next_cursor: null } });
      }
      return route.fallback();
    });
    await page.route("**/api/internal/dead-letters/redrive", (route) => {
      redriven = route.request().postDataJSON();
      route.fulfill({ json: { letters: 1, events: 1, left: [], more: false } });
    });
    await admin.goto("/operations/pipeline");
    const events = page.getByRole("region", { name: "Events", exact: true });
    await events.getByText("100/s", { exact: true }).waitFor();
    await events.getByText("50/s", { exact: true }).waitFor();
    await events.getByText("321 records").waitFor();
    await page.getByRole("region", { name: "Event log" }).getByText("512.0 MiB of 1.0 GiB").waitFor();
    await page.getByText(/^3, since /).waitFor();
    await page.getByText("Partition 12: 7 records wait above offset 5").waitFor();
    await page.getByText("store: ClickHouse does not answer").waitFor();
    await button("Show the accepted events").click();
    await page.getByText("odd").waitFor();
    await admin.checkAccessibility();
    await admin.screenshot("operations-pipeline");
    await page.getByRole("button", { name: "Redrive…" }).click();
    await dialog().getByRole("button", { name: "Redrive" }).click();
    await page.getByText("Dead letters appended to the log: 1, with 1 events").waitFor();
    expect(redriven).toMatchObject({ letters: ["0-1"] });
    await page.unrouteAll();
  });
});

describe("prices", () => {
  it("are set digit for digit where one is missing, and stored runs are priced again", async () => {
    await admin.goto("/operations/prices");
    await button(`Set a price for ${MODEL}`).click();
    await dialog().getByLabel("USD for").selectOption("1k");
    await dialog().getByLabel("Prompt", { exact: true }).fill(`${PRICE}6`);
    await button("Save").click();
    await dialog().getByText("At most 15 decimal digits").waitFor();
    await admin.checkAccessibility();
    await dialog().getByLabel("Prompt", { exact: true }).fill(PRICE);
    await dialog().getByLabel("Answer").fill("1");
    await button("Save").click();
    await button("Recalculate stored runs").click();
    expect(await dialog().getByLabel("Model").inputValue()).toBe(MODEL);
    const kept = await fetch(`${server.url}/api/internal/prices?origin=changed`, {
      headers: { Authorization: `Bearer ${server.token}` },
    });
    expect(await kept.text()).toContain(`"input_per_1k":${PRICE}`);
    await dialog().getByRole("button", { name: "Recalculate" }).click();
    const job = page.getByRole("region", { name: "Job", exact: true });
    await job.getByText("done", { exact: true }).waitFor();
    await page.getByText("Every model in use has a price.").waitFor();
    const id = new URL(page.url()).searchParams.get("job");
    const { changed, cost_after } = await server.api(`/api/internal/jobs/${id}`);
    expect(changed).toBe(3);
    expect(cost_after).toBeCloseTo(3 * (Number(PRICE) + 0.5), 9);
    await page.reload();
    await job.getByText("$1.87 after").waitFor();
    await page.getByLabel("Search").fill("house");
    await page.getByText("1 of ").waitFor();
    await page.getByRole("gridcell", { name: MODEL }).waitFor();
    await admin.screenshot("operations-prices");
    await page.getByRole("gridcell", { name: MODEL }).click();
    await button("Remove this price").click();
    await button("Remove").click();
    await page.getByText("Price not found").waitFor();
  });
});

describe("secrets", () => {
  /** Everything a script on the page can read. */
  const readable = () =>
    page.evaluate(() =>
      JSON.stringify([document.documentElement.outerHTML, { ...localStorage }, { ...sessionStorage }, location.href]),
    );

  it("of a key are shown once, and revoking is for ever", async () => {
    await admin.goto("/operations/keys");
    await page.getByLabel("Name").fill("of a test");
    await button("Create key").click();
    await dialog().getByText("never shown again").waitFor();
    await admin.checkAccessibility();
    const secret = (await dialog().locator("code").textContent()) ?? "";
    expect(secret).toMatch(/^sp_key_/);
    const asked = (token: string) => fetch(`${server.url}/api/run`, { headers: { Authorization: `Bearer ${token}` } });
    expect((await asked(secret)).status).toBe(200);
    await button("Done").click();
    await dialog().waitFor({ state: "detached" });
    expect(await readable()).not.toContain(secret);
    await button("Revoke of a test").click();
    await dialog().getByRole("button", { name: "Revoke" }).click();
    await page.getByText(/^revoked /).waitFor();
    expect((await asked(secret)).status).toBe(401);
  });

  it("of a token are shown once, and one's own is not revoked unawares", async () => {
    await admin.goto("/operations/tokens");
    await page.getByLabel("Name").fill("Ada");
    await page.getByLabel("Role").selectOption("operator");
    await page.getByLabel("Expires").selectOption("7d");
    await page.getByRole("checkbox", { name: "default" }).check();
    await button("Create the token").click();
    const secret = (await dialog().locator("code").textContent()) ?? "";
    expect(secret).toMatch(/^sp_tok_/);
    await page.keyboard.press("Escape");
    await dialog().waitFor({ state: "detached" });
    expect(await readable()).not.toContain(secret);
    const made = (await server.api("/api/internal/tokens")).data.find((one: { name: string }) => one.name === "Ada");
    expect(made).toMatchObject({ role: "operator", projects: ["default"] });
    expect(Date.parse(made.expires_at) - Date.parse(made.created_at)).toBeCloseTo(7 * 86_400_000, -4);
    await page.getByRole("row").filter({ hasText: "you" }).getByRole("button").click();
    await dialog().getByText("You are signed in with this token").waitFor();
    await admin.checkAccessibility();
    await button("Cancel").click();
    await dialog().waitFor({ state: "detached" });
  });
});

describe("administration", () => {
  it("makes and changes projects", async () => {
    await admin.goto("/operations/projects");
    await button("New project").click();
    await dialog().getByLabel(/^Id/).fill("billing");
    await dialog().getByLabel(/^Days/).fill("7");
    await button("Save").click();
    await button("Edit billing").click();
    await dialog()
      .getByLabel(/^Apps whose/)
      .fill("old-app");
    await dialog().getByText("can report events for it").waitFor();
    await button("Save").click();
    await dialog().waitFor({ state: "detached" });
    await page.getByRole("cell", { name: "old-app" }).waitFor();
    await admin.checkAccessibility();
    const found = (await server.api("/api/internal/projects")).data;
    expect(found).toContainEqual(
      expect.objectContaining({ project_id: "billing", retention_days: 7, keyless_app_ids: ["old-app"] }),
    );
  });

  it("clears the caches of all processes", async () => {
    await admin.goto("/operations/caches");
    await button("Clear svc:core:cache").click();
    await dialog().getByRole("button", { name: "Clear" }).click();
    await page.getByText("1 of 1").waitFor();
    await admin.checkAccessibility();
    await admin.screenshot("operations-caches");
  });

  it("says what retention would drop", async () => {
    await admin.goto("/operations/jobs");
    await button("Dry run: only report what would be dropped").click();
    await page.getByRole("region", { name: "Job", exact: true }).getByText("done", { exact: true }).waitFor();
    await admin.checkAccessibility();
    const id = new URL(page.url()).searchParams.get("job");
    expect(await server.api(`/api/internal/jobs/${id}`)).toMatchObject({
      kind: "retention",
      parameters: { dry_run: true },
    });
  });
});

describe("processes", () => {
  it("are registered and started, and what is wrong is said where it is", async () => {
    const name = "Order / é <b>";
    const body = (schema: unknown) =>
      JSON.stringify({ status: "COMMITTED", processes: [{ name, schema, startNodes: ["received"] }] }, null, 2);
    await admin.goto("/operations/processes/register?app_id=shop");
    await page.getByLabel("Build", { exact: true }).fill("b/1");
    const editor = page.getByLabel("Status and processes");
    await editor.fill('{\n  "status" "x"\n}');
    await button("Line 2").waitFor();
    await editor.fill(body({ type: "objekt" }));
    await button("Register").click();
    await button("Line 7").click();
    await admin.checkAccessibility();
    await editor.fill(body(SCHEMA));
    await button("Register").click();
    await button(`Start of ${name}`).click();
    const input = page.getByLabel("Input (JSON)");
    expect(JSON.parse(await input.inputValue())).toEqual({ key1: "", copies: 1 });
    const start = page.getByRole("button", { name: "Start", exact: true });
    await start.click();
    await page.getByText("/key1:").waitFor();
    await admin.checkAccessibility();
    await input.fill('{"key1": "a", "copies": 2}');

    // The answer is lost: sent again, it is the same start.
    const keys: (string | undefined)[] = [];
    await page.route("**/rtm/**", async (route) => {
      keys.push(route.request().headers()["idempotency-key"]);
      if (keys.length > 1) return route.continue();
      await route.fetch();
      return route.abort();
    });
    await start.click();
    await page.getByText("The server does not answer").first().waitFor();
    await start.click();
    await page.getByText("Started: instance").waitFor();
    await page.unroute("**/rtm/**");
    expect(keys[1]).toBe(keys[0]);
    const [instance, ...others] = (await server.api("/api/platform/process?app_id=shop")).data;
    expect(others).toEqual([]);
    expect(instance).toMatchObject({ processDefinitionName: name, platform: "web" });

    await page.getByRole("link", { name: "Show the instance" }).click();
    await page.getByRole("heading", { name: "Tokens" }).waitFor();
    await page.getByText(String(instance.instanceMetadata.processInstanceId), { exact: true }).waitFor();
    await admin.checkAccessibility();
    await page.getByRole("link", { name: "Show its run" }).click();
    await page.getByRole("heading", { level: 1 }).waitFor();
    expect(new URL(page.url()).pathname).toBe(`/runs/${instance.uuid}`);
    await admin.goto("/operations/processes?app_id=shop");
    await page.getByRole("region", { name: "Builds" }).getByRole("link", { name: "b/1" }).waitFor();
    await page.getByRole("link", { name: instance.uuid }).waitFor();
    await admin.screenshot("operations-processes");
  });
});
