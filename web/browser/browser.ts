/** A real browser on the pages of a server: signed in, watched for faults, and checked for accessibility. */

import { existsSync, mkdirSync } from "node:fs";
import { resolve } from "node:path";
import axe, { type AxeResults } from "axe-core";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { expect } from "vitest";
import type { Server } from "./server";

const CHROMIUM = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const SCREENSHOTS = resolve(import.meta.dirname, "../screenshots");
/** How long something may take to appear: the server is a debug build on a busy machine. */
const APPEARS_WITHIN_MS = 60_000;

/** Starts the browser that `SPINDLE_CHROMIUM` names, or Debian's. */
export function launch(): Promise<Browser> {
  const path = process.env.SPINDLE_CHROMIUM ?? CHROMIUM.find(existsSync);
  if (!path) throw new Error("no chromium here: `make chromium` says how to get it");
  // As root there is no sandbox; pages come from our own server only. Shared memory is small in containers.
  const args = ["--no-sandbox", "--disable-dev-shm-usage", "--force-color-profile=srgb"];
  return chromium.launch({ executablePath: path, args });
}

/** How a user looks at the pages. */
export type Look = { dark?: boolean; phone?: boolean };

/** A user of the pages. */
export class Visitor {
  /** What the console called an error, and what the content security policy refused. */
  readonly faults: string[] = [];

  private constructor(
    readonly page: Page,
    readonly context: BrowserContext,
    readonly server: Server,
  ) {
    page.setDefaultTimeout(APPEARS_WITHIN_MS);
    page.on("pageerror", (error) => this.faults.push(String(error)));
    page.on("console", (message) => {
      // A browser writes each 4xx and 5xx to its console: those are answers, not faults of the page.
      if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) {
        this.faults.push(message.text());
      }
    });
  }

  /** Comes without a session. */
  static async come(browser: Browser, server: Server, look: Look = {}): Promise<Visitor> {
    const context = await browser.newContext({
      baseURL: server.url,
      viewport: look.phone ? { width: 390, height: 844 } : { width: 1280, height: 800 },
      colorScheme: look.dark ? "dark" : "light",
      reducedMotion: "reduce",
      locale: "en-GB",
      timezoneId: "Europe/Berlin",
    });
    return new Visitor(await context.newPage(), context, server);
  }

  /** Comes with a session of this token, the admin's if none is given. */
  static async signedIn(browser: Browser, server: Server, look: Look & { token?: string } = {}): Promise<Visitor> {
    const visitor = await Visitor.come(browser, server, look);
    const answer = await visitor.context.request.post("/api/session", { data: { token: look.token ?? server.token } });
    expect(answer.status(), await answer.text()).toBe(200);
    return visitor;
  }

  /** Goes to an address and waits until the page has its title. */
  async goto(path: string) {
    await this.page.goto(path);
    await this.page.getByRole("heading", { level: 1 }).waitFor();
  }

  /** Fails with what axe finds against WCAG 2 A and AA, and landmarks that a screen reader cannot tell apart. */
  async checkAccessibility() {
    // By the debugger, which the content security policy does not concern.
    await this.page.evaluate(axe.source);
    const found = await this.page.evaluate(
      (tags) =>
        (globalThis as unknown as { axe: typeof axe }).axe.run(document, {
          runOnly: { type: "tag", values: tags },
          rules: { "landmark-unique": { enabled: true } },
        }),
      ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
    );
    expect(describe(found), this.page.url()).toEqual([]);
  }

  /** Keeps a picture of the page where `SPINDLE_SCREENSHOTS` is set: for people, no test looks at it. */
  async screenshot(name: string) {
    if (!process.env.SPINDLE_SCREENSHOTS) return;
    mkdirSync(SCREENSHOTS, { recursive: true });
    await this.page.screenshot({ path: resolve(SCREENSHOTS, `${name}.png`) });
  }

  /** Goes; whatever the console complained about fails the test. */
  async leave() {
    await this.context.close();
    expect(this.faults).toEqual([]);
  }
}

function describe(found: AxeResults): string[] {
  return found.violations.map(
    (violation) =>
      `${violation.id}: ${violation.nodes.map((node) => `${node.target} ${node.failureSummary}`).join("; ")}`,
  );
}
