import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { launch, Visitor } from "./browser";
import { Server } from "./server";

let server: Server;
let browser: Browser;

beforeAll(async () => {
  [server, browser] = await Promise.all([Server.start(), launch()]);
  await server.report([
    { name: "agent_call", type: "agent", run_id: "first", timestamp: new Date().toISOString(), output: "done" },
  ]);
});
afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

/** Signs in as a person does. */
async function signIn(visitor: Visitor, token: string) {
  await visitor.page.getByLabel("Token").fill(token);
  await visitor.page.getByRole("button", { name: "Sign in" }).click();
}

describe("signing in", () => {
  it("asks for a token, refuses a wrong one, and shows the page that was asked for", async () => {
    const visitor = await Visitor.come(browser, server);
    const { page } = visitor;
    await visitor.goto("/runs?status=success");
    await visitor.checkAccessibility();
    await visitor.screenshot("sign-in");
    await signIn(visitor, "sp_tok_nobody");
    await page.getByRole("alert").getByText("not known").waitFor();
    await signIn(visitor, server.key);
    await page.getByRole("alert").getByText("token").waitFor();
    await signIn(visitor, server.token);
    await page.getByRole("heading", { name: "Runs" }).waitFor();
    expect(new URL(page.url()).search).toBe("?status=success");
    await visitor.leave();
  });

  it("keeps the secret out of what scripts can read and out of addresses", async () => {
    const visitor = await Visitor.come(browser, server);
    const { page, context } = visitor;
    const asked: string[] = [];
    page.on("request", (request) => asked.push(request.url()));
    await visitor.goto("/");
    await signIn(visitor, server.token);
    await page.getByRole("heading", { name: "Runs" }).waitFor();
    const [cookie] = await context.cookies();
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: "Strict", path: "/" });
    expect(cookie?.value).not.toContain(server.token);
    const readable = await page.evaluate(() =>
      JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }, location.href, history.state]),
    );
    for (const secret of [server.token, cookie?.value ?? "?"]) {
      expect(readable).not.toContain(secret);
      expect(asked.join(" ")).not.toContain(secret);
    }
    await visitor.leave();
  });

  it("ends with signing out, for copies of the cookie too", async () => {
    const visitor = await Visitor.signedIn(browser, server);
    const { page, context } = visitor;
    await visitor.goto("/runs");
    const [cookie] = await context.cookies();
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    expect(await context.cookies()).toEqual([]);
    const again = await fetch(`${server.url}/api/run`, { headers: { Cookie: `${cookie?.name}=${cookie?.value}` } });
    expect(again.status).toBe(401);
    await visitor.leave();
  });

  it("is asked for again when the token is revoked, at the same address", async () => {
    const { id, secret } = await server.makeToken("viewer");
    const visitor = await Visitor.signedIn(browser, server, { token: secret });
    const { page } = visitor;
    await visitor.goto("/runs");
    await server.api(`/api/internal/tokens/${id}`, { method: "DELETE" });
    await page.getByRole("link", { name: "Threads" }).click();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    expect(new URL(page.url()).pathname).toBe("/threads");
    await visitor.leave();
  });
});

describe("a session of some seconds", () => {
  it("ends by itself: the page forgets what it showed and asks for a token", async () => {
    const brief = await Server.start({ SPINDLE_AUTH__SESSION_LIFETIME: "6s" });
    try {
      const timestamp = new Date().toISOString();
      await brief.report([{ name: "secret_plan", type: "agent", run_id: "brief", timestamp, output: "done" }]);
      const visitor = await Visitor.signedIn(browser, brief);
      const { page } = visitor;
      await page.goto("/runs");
      await page.getByText("secret_plan").first().waitFor();
      await page.getByRole("heading", { name: "Sign in" }).waitFor();
      expect(await page.content()).not.toContain("secret_plan");
      expect((await visitor.context.request.get("/api/run")).status()).toBe(401);
      await visitor.leave();
    } finally {
      await brief.stop();
    }
  });
});

describe("what a user sees", () => {
  it("goes by their role", async () => {
    const places = async (role: string) => {
      const { secret } = await server.makeToken(role);
      const visitor = await Visitor.signedIn(browser, server, { token: secret });
      await visitor.page.goto("/");
      const names = visitor.page.getByRole("navigation", { name: "Pages" }).getByRole("link");
      await names.first().waitFor();
      const found = await names.allTextContents();
      await visitor.leave();
      return found;
    };
    const reading = ["Runs", "Model calls", "Threads", "Overview", "Datasets"];
    expect(await places("viewer")).toEqual(reading);
    expect(await places("starter")).toEqual(["Operations"]);
    expect(await places("operator")).toEqual([...reading, "Operations"]);
    expect(await places("admin")).toEqual([...reading, "Operations"]);
  });

  it("is served with a policy that allows no script but ours", async () => {
    const answer = await fetch(`${server.url}/`);
    const policy = answer.headers.get("content-security-policy") ?? "";
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("script-src 'self'");
    expect(policy).not.toContain("unsafe");
    expect(await answer.text()).not.toMatch(/<script(?![^>]*src=)/);
  });

  it("loads with less than 300 KB", async () => {
    const visitor = await Visitor.signedIn(browser, server);
    const { page } = visitor;
    // Prefetched files do not delay the page.
    await page.addInitScript(() => {
      window.requestIdleCallback = () => 0;
    });
    const client = await visitor.context.newCDPSession(page);
    await client.send("Network.enable");
    let bytes = 0;
    client.on("Network.loadingFinished", (event) => {
      bytes += event.encodedDataLength;
    });
    await visitor.goto("/runs");
    await page.getByText("agent_call").first().waitFor();
    expect(bytes).toBeGreaterThan(20_000);
    expect(bytes).toBeLessThan(300_000);
    await visitor.leave();
  });
});
