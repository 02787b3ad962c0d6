import { readFileSync } from "node:fs";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { launch, Visitor } from "./browser";
import { Server, until } from "./server";

const SAVED = 6;

let server: Server;
let browser: Browser;

beforeAll(async () => {
  [server, browser] = await Promise.all([Server.start(), launch()]);
  const at = Date.now() - 600_000;
  const calls = Array.from({ length: SAVED + 2 }, (_, index) => ({
    name: `call-${index}`,
    type: index === 0 ? "agent" : "llm",
    run_id: `run-${index}`,
    timestamp: new Date(at + index * 1000).toISOString(),
    input: [{ role: "user", content: `question ${index}\nwith "two" lines` }],
    output: { role: "assistant", content: "=1+1, an answer" },
    duration_ms: 500,
  }));
  await server.report(calls);
  for (let index = 0; index < SAVED; index++) await server.api(`/api/run/run-${index}/save`, { method: "POST" });
  await until("all are saved", async () => (await server.api("/api/dataset")).data.length === SAVED);
});
afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

/** A user whose browser cannot ask for a file: the export is downloaded. */
async function downloader(path: string, look = {}): Promise<Visitor> {
  const visitor = await Visitor.signedIn(browser, server, look);
  await visitor.page.addInitScript(() => Reflect.deleteProperty(window, "showSaveFilePicker"));
  await visitor.goto(path);
  await visitor.page.getByRole("grid").waitFor();
  return visitor;
}

/** Exports in this format; the bytes of the file. */
async function exported(page: Page, format: string): Promise<{ name: string; bytes: Buffer }> {
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("radio", { name: format }).check();
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    dialog.getByRole("button", { name: /^Export/ }).click(),
  ]);
  await dialog.getByText(/^Exported:/).waitFor();
  return { name: download.suggestedFilename(), bytes: readFileSync(await download.path()) };
}

describe("the dataset", () => {
  it("is exported in each format, as the API gives it", async () => {
    const visitor = await downloader("/datasets");
    const { page } = visitor;
    await page.getByText(`${SAVED} saved runs`).waitFor();
    await visitor.checkAccessibility();
    await visitor.screenshot("datasets-light");
    await page.getByRole("button", { name: "Export…" }).click();
    const dialog = page.getByRole("dialog");

    const lines = await exported(page, "JSON lines");
    expect(lines.name).toMatch(/^spindle-dataset-\d{4}-\d\d-\d\d\.jsonl$/);
    const runs = lines.bytes
      .toString()
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(runs.map((run) => run.run_id)).toEqual(Array.from({ length: SAVED }, (_, index) => `run-${index}`));
    await dialog.getByText(`Exported: ${SAVED} rows`).waitFor();

    const csv = await exported(page, "CSV");
    expect(csv.bytes.toString()).toMatch(/^[a-z_,]+\r?\n/);
    await dialog.getByText(`Exported: ${SAVED} rows`).waitFor();
    const parquet = await exported(page, "Parquet");
    expect(parquet.bytes.subarray(0, 4).toString()).toBe("PAR1");
    expect(parquet.bytes.subarray(-4).toString()).toBe("PAR1");

    await dialog.getByRole("radio", { name: "Fine-tuning" }).check();
    await dialog.getByRole("button", { name: "Check which runs can be exported" }).click();
    await dialog.getByText(`${SAVED - 1} lines from ${SAVED} saved runs`).waitFor();
    await visitor.checkAccessibility();
    await visitor.screenshot("datasets-export");
    const chat = await exported(page, "Fine-tuning");
    expect(JSON.parse(chat.bytes.toString().split("\n")[0] ?? "").messages).toHaveLength(2);
    await visitor.leave();
  });

  it("says that an export broke off, and keeps nothing of it", async () => {
    const visitor = await downloader("/runs?type=llm");
    const { page } = visitor;
    let downloads = 0;
    page.on("download", () => {
      downloads += 1;
    });
    // As much as a stream that was cut gives: a beginning, and then an error.
    await page.evaluate(() => {
      const whole = window.fetch;
      window.fetch = async (address, init) => {
        if (!String(address).includes("/export")) return whole(address, init);
        const broken = new ReadableStream({
          start(stream) {
            stream.enqueue(new TextEncoder().encode('{"run_id":"run-1"}\n{"run'));
          },
          pull: (stream) => stream.error(new TypeError("network error")),
        });
        return new Response(broken);
      };
    });
    await page.getByRole("button", { name: "Export…" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Export" }).click();
    await page.getByRole("alert").getByText("The export was interrupted after 1 row, 24 B").waitFor();
    expect(downloads).toBe(0);
    await visitor.leave();
  });

  it("can be cancelled, and says what the server refuses", async () => {
    const visitor = await downloader("/datasets", { dark: true });
    const { page } = visitor;
    await page.route("**/api/dataset/export*", () => {
      // No answer yet.
    });
    await page.getByRole("button", { name: "Export…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("button", { name: "Export", exact: true }).click();
    await dialog.getByRole("progressbar").waitFor();
    await visitor.checkAccessibility();
    await dialog.getByRole("button", { name: "Cancel the export" }).click();
    await dialog.getByText("Canceled. No file was saved.").waitFor();
    await page.unrouteAll();
    await page.route("**/api/dataset/export*", (route) =>
      route.fulfill({ status: 503, json: { error: "busy", message: "enough exports are running", status: 503 } }),
    );
    await dialog.getByRole("button", { name: "Export again" }).click();
    await dialog.getByText("enough exports are running").waitFor();
    await visitor.leave();
  });

  it("lets go of a run, and takes it back", async () => {
    const visitor = await downloader("/datasets?q=question+5");
    const { page } = visitor;
    const saved = async () => (await server.api("/api/run/run-5")).saved;
    await page.getByRole("button", { name: "Unsave call-5" }).click();
    await until("it is let go", async () => (await saved()) === false);
    await page.getByRole("button", { name: "Save again call-5" }).click();
    await until("it is saved again", saved);
    await visitor.leave();
  });
});
