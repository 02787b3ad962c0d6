/** A page of another origin, in a real browser on the machine, asks the embedded engine and reads nothing. */

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { launch } from "./browser";
import { Server } from "./server";

let server: Server;
let browser: Browser;
const site = createServer((_, answer) => {
  answer.setHeader("content-type", "text/html");
  answer.end("<p>a page</p>");
});

beforeAll(async () => {
  [server, browser] = await Promise.all([Server.start(), launch()]);
  await new Promise<void>((listening) => site.listen(0, "127.0.0.1", listening));
});
afterAll(async () => {
  site.close();
  await browser?.close();
  await server?.stop();
});

/** Runs in the page: what each way of asking lets it see. */
async function ask(engine: string): Promise<string[]> {
  const target = `${engine}/?add_http_cors_header=1&query=${encodeURIComponent("SELECT file('/proc/self/environ')")}`;
  const user = { "X-ClickHouse-User": "spindle", "X-ClickHouse-Key": "guess" };
  const ways: RequestInit[] = [
    {},
    { method: "POST", body: "SELECT 1" },
    { method: "POST", body: "SELECT 1", headers: user },
    { headers: user },
    { credentials: "include", headers: { Authorization: "Basic ZGVmYXVsdDo=" } },
    { method: "POST", body: "SELECT 1", mode: "no-cors" },
  ];
  const see = async (way: RequestInit) => {
    try {
      return await (await fetch(target, way)).text();
    } catch {
      return "";
    }
  };
  return Promise.all(ways.map(see));
}

it("reads nothing of the engine, whatever way it asks", async () => {
  const page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${(site.address() as AddressInfo).port}/`);
  const control = await page.evaluate(async () => (await fetch("/")).text());
  expect(control).toContain("a page");
  const seen = await page.evaluate(ask, `http://127.0.0.1:${server.enginePort()}`);
  expect(seen).toEqual(["", "", "", "", "", ""]);
  await page.close();
});
