import type { Browser, Locator } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { launch, Visitor } from "./browser";
import { type Event, Server, until } from "./server";

let server: Server;
let browser: Browser;

const DAY = 86_400_000;
/** Noon of today or, before noon, of yesterday, in UTC: nothing reported is in the future, and no day is cut by a zone. */
const NOON = Math.floor((Date.now() - DAY / 2) / DAY) * DAY + DAY / 2;
const AGENTS = ["support-agent", "invoice-reader", "research-agent"];

/** Runs of three agents over five days, each with a model call; every fourth fails. */
function events(): Event[] {
  const all: Event[] = [];
  for (let index = 0; index < 60; index += 1) {
    const run_id = `run-${index}`;
    const at = (seconds: number) =>
      new Date(NOON - (index % 5) * DAY - (index % 7) * 3_600_000 + seconds * 1000).toISOString();
    const base = {
      app_id: index % 2 ? "helpdesk" : "billing",
      metadata: { agent: AGENTS[index % 3], user_email: index % 2 ? "ada@example.com" : "grace@example.com" },
    };
    all.push({ name: "agent_start", type: "agent", run_id, timestamp: at(0), ...base });
    all.push({
      name: "llm_call",
      type: "llm",
      run_id: `${run_id}-llm`,
      parent_run_id: run_id,
      timestamp: at(1),
      duration_ms: 400 + index * 10,
      model: index % 4 ? "gpt-4o" : "gpt-4o-mini",
      prompt_tokens: 1000 + index,
      completion_tokens: 200,
      output: "an answer",
      ...base,
    });
    all.push(
      index % 4 === 3
        ? { name: "agent_error", run_id, timestamp: at(2), error: { name: "TimeoutError", message: "late" }, ...base }
        : { name: "agent_end", run_id, timestamp: at(2 + index / 10), output: "done", ...base },
    );
  }
  return all;
}

beforeAll(async () => {
  [server, browser] = await Promise.all([Server.start(), launch()]);
  await server.report(events());
});
afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

/** The report that the page should show. */
function usage(by: string, query = "") {
  const from = new Date(Date.now() - 7 * DAY).toISOString();
  return server.api(`/api/analytics/usage/${by}?${query || `from=${from}`}`);
}

/** Texts of the cells of a row. */
async function cells(row: Locator): Promise<string[]> {
  return (await row.locator("td").allInnerTexts()).map((text) => text.trim());
}

describe("the overview", () => {
  it("shows the figures that the API has, by model, agent, user and app", async () => {
    const visitor = await Visitor.signedIn(browser, server);
    const { page } = visitor;
    for (const by of ["agent", "user", "model", "app"]) {
      const report = await usage(`${by}s`);
      await visitor.goto(`/overview?by=${by}`);
      const table = page.getByRole("region", { name: `Table by ${by}` });
      for (const group of report.groups) {
        const row = table.getByRole("row", { name: group.key ?? `(no ${by})` }).first();
        await row.waitFor();
        const [runs, calls, , tokens, , , errors] = await cells(row);
        const whole = (value: number) => value.toLocaleString("en-US");
        expect([runs, calls, tokens, errors]).toEqual(
          [group.runs, group.calls, group.total_tokens, group.errors].map(whole),
        );
      }
      expect(await table.getByRole("row").count()).toBe(report.groups.length + 2);
    }
    const tile = page.getByRole("region", { name: "Totals of all runs" });
    const { totals } = await usage("agents");
    await page.locator('[aria-label="Totals of all runs"][aria-busy="false"]').waitFor();
    expect(await tile.locator("dd").first().textContent()).toBe(String(totals.runs));
    expect(await tile.textContent()).toContain(`$${totals.cost.toFixed(2)}`.slice(0, 4));
    await visitor.leave();
  });

  it("keeps everything in its place while figures come", async () => {
    const visitor = await Visitor.signedIn(browser, server);
    const { page } = visitor;
    await page.addInitScript(() => {
      const shifts: number[] = [];
      Object.assign(window, { shifts });
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) shifts.push((entry as unknown as { value: number }).value);
      }).observe({ type: "layout-shift", buffered: true });
    });
    // Slower than any animation frame, so that what is missing is drawn as missing.
    await page.route(/\/api\/analytics\//, async (route) => {
      await new Promise((resolve) => setTimeout(resolve, 400));
      await route.continue();
    });
    await visitor.goto("/overview?by=agent");
    await page.locator(".u-over").last().waitFor();
    await page.getByRole("region", { name: "Table by agent" }).waitFor();
    await page.waitForLoadState("networkidle");
    const shifts: number[] = await page.evaluate("window.shifts");
    expect(shifts.reduce((sum, shift) => sum + shift, 0)).toBeLessThan(0.1);
    await visitor.leave();
  });

  it("shows each chart as a table whose sum is the total", async () => {
    const visitor = await Visitor.signedIn(browser, server);
    const { page } = visitor;
    await visitor.goto("/overview?by=agent");
    await page.getByRole("button", { name: "Runs as a table" }).click();
    const rows = page.getByRole("region", { name: "Figures of Runs" }).locator("tbody tr");
    expect(await rows.count()).toBeGreaterThanOrEqual(7);
    const together = (await Promise.all((await rows.all()).map(cells))).map((row) => Number(row.at(-1)));
    expect(together.reduce((sum, runs) => sum + runs, 0)).toBe((await usage("agents")).totals.runs);
    await visitor.checkAccessibility();
    await visitor.leave();
  });

  it("takes a stretch that is dragged for all charts, tables and the runs below, and gives it back", async () => {
    const visitor = await Visitor.signedIn(browser, server);
    const { page } = visitor;
    await visitor.goto("/overview?by=agent");
    const plot = page.locator(".u-over").first();
    await plot.scrollIntoViewIfNeeded();
    const box = await plot.boundingBox();
    if (!box) throw new Error("no chart");
    // The last three of eight days.
    await page.mouse.move(box.x + box.width * 0.67, box.y + 50);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.99, box.y + 60, { steps: 4 });
    await page.mouse.up();
    await page.waitForURL(/from=.*to=/);
    const params = new URL(page.url()).searchParams;
    const [from, to] = [params.get("from") ?? "", params.get("to") ?? ""];
    expect(from).toMatch(/T00:00:00\.000Z$/);
    const { totals } = await usage("agents", `from=${from}&to=${to}`);
    expect(totals.runs).toBeGreaterThan(0);
    expect(totals.runs).toBeLessThan(120);
    const runs = page.getByRole("region", { name: "Runs in this time range" });
    await runs.getByRole("heading", { name: `Runs in this time range ${totals.runs}` }).waitFor();
    const list = runs.getByRole("grid");
    await list.getByRole("row").nth(1).waitFor();
    expect(await list.getAttribute("aria-rowcount")).toBe(String(totals.runs + 1));
    const link = new URL(
      (await runs.getByRole("link", { name: "Open in Runs" }).getAttribute("href")) ?? "",
      page.url(),
    );
    expect([link.pathname, link.searchParams.get("from"), link.searchParams.get("to")]).toEqual(["/runs", from, to]);
    await page.getByRole("button", { name: "Reset times" }).click();
    await runs.getByRole("heading", { name: "Runs in this time range 120" }).waitFor();
    expect(new URL(page.url()).searchParams.has("from")).toBe(false);
    await visitor.leave();
  });

  it("takes times from the fields, a group from its table, and leads to a run that failed", async () => {
    const visitor = await Visitor.signedIn(browser, server);
    const { page } = visitor;
    await visitor.goto("/overview?by=agent");
    await page.getByLabel("From").fill(new Date(NOON - 2 * DAY).toISOString().slice(0, 19));
    await page.getByRole("button", { name: "Apply" }).click();
    await page.waitForURL(/from=/);
    // The visitor's clock is that of Berlin.
    const from = Date.parse(new URL(page.url()).searchParams.get("from") ?? "");
    expect([1, 2]).toContain((NOON - 2 * DAY - from) / 3_600_000);
    await page.getByRole("button", { name: "Reset times" }).click();
    await page.getByRole("button", { name: "research-agent", exact: true }).last().click();
    await page.waitForURL(/agent=research-agent/);
    const { totals } = await usage(
      "agents",
      `agent=research-agent&from=${new Date(Date.now() - 7 * DAY).toISOString()}`,
    );
    await page.getByRole("heading", { name: `Runs in this time range ${totals.runs}` }).waitFor();
    const reason = page.getByRole("row", { name: "TimeoutError" });
    expect((await cells(reason))[0]).toBe(String(totals.errors));
    await reason.getByRole("link").click();
    await page.waitForURL(/\/runs\/run-\d+\?/);
    await visitor.leave();
  });

  it("is accessible and readable in light and dark, wide and narrow", async () => {
    for (const [name, look] of Object.entries({ light: {}, dark: { dark: true }, phone: { phone: true } })) {
      const visitor = await Visitor.signedIn(browser, server, look);
      await visitor.goto("/overview?by=agent");
      await visitor.page.getByRole("region", { name: "Table by agent" }).waitFor();
      await visitor.page.locator(".u-over").nth(5).waitFor();
      await visitor.checkAccessibility();
      await visitor.screenshot(`overview-${name}`);
      await visitor.leave();
    }
  });

  // Last: the other tests count runs.
  it("names the client library of an app, by its newest root run", async () => {
    const one = { app_id: "shop", name: "clerk_call", type: "agent", output: 1 };
    const at = (back: number) => new Date(Date.now() - back).toISOString();
    const names = (version: string) => ({ metadata: { spindle_client: `spindle-client-python/${version}` } });
    await server.report([
      { ...one, run_id: "older", timestamp: at(60_000), ...names("0.1.0") },
      { ...one, run_id: "newer", timestamp: at(30_000), ...names("0.2.0") },
      { ...one, run_id: "below", timestamp: at(10_000), parent_run_id: "newer" },
    ]);
    const read = () => server.api("/api/run/?app_id=shop");
    await until("the app's runs", async () => (await read()).data.length === 3);
    const visitor = await Visitor.signedIn(browser, server);
    const { page } = visitor;
    await visitor.goto("/overview?app_id=shop");
    await page.getByRole("link", { name: "spindle-client-python 0.2.0" }).click();
    await page.getByText("clerk").first().waitFor();
    expect(new URL(page.url()).searchParams.get("app_id")).toBe("shop");
    // Runs of other clients name none.
    await visitor.goto("/overview?app_id=billing&by=agent");
    await page.getByRole("region", { name: "Table by agent" }).waitFor();
    expect(await page.getByText("was reported by").count()).toBe(0);
    await visitor.leave();
  });
});
