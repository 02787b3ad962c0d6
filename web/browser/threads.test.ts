import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { launch, Visitor } from "./browser";
import { type Event, Server, until } from "./server";

let server: Server;
let browser: Browser;

const MINUTE = 60_000;
const NOW = Date.now();
const LONG = 2_000;
const HOSTILE = "order/4711?#%2F";
const SCRIPT = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>';

function chat(minutesAgo: number, role: string, content: string, more: Event): Event {
  return {
    name: "chat",
    role,
    content,
    app_id: "helpdesk",
    timestamp: new Date(NOW - minutesAgo * MINUTE).toISOString(),
    metadata: { agent: "support-agent", user_email: "ada@example.com" },
    ...more,
  };
}

/** The event that is waited for: messages alone make no run. */
function last(app_id: string, run_id: string): Event {
  return { name: "agent_call", type: "agent", run_id, app_id, timestamp: new Date(NOW).toISOString(), output: "done" };
}

beforeAll(async () => {
  [server, browser] = await Promise.all([Server.start(), launch()]);
  const talk = { thread_id: "talk", run_id: "talk-run" };
  const hostile = { thread_id: HOSTILE, run_id: "hostile-run" };
  const other = { app_id: "billing", metadata: { agent: "invoice-reader", user_email: "grace@example.com" } };
  const long = Array.from({ length: LONG }, (_, index) =>
    chat(3000 - index, index % 2 ? "assistant" : "user", `Message ${index}. ${"word ".repeat(index % 90)}`, {
      thread_id: "long",
      run_id: `long-${index >> 1}`,
    }),
  );
  await server.report([
    chat(3 * 24 * 60, "user", "Where is my order?", talk),
    chat(12, "assistant", 'It is on its way.\n```json\n{"state": "sent"}\n```\nAnything else?', talk),
    chat(40, "user", SCRIPT, hostile),
    chat(39, "assistant", `\u202egnp.exe\u2066 مرحبا ${"x".repeat(100_000)}`, hostile),
    chat(25, "user", "No name for this one", { run_id: "window-1" }),
    chat(24, "assistant", "It is a window", { run_id: "window-1" }),
    { ...last("helpdesk", "talk-run"), timestamp: new Date(NOW - 12 * MINUTE).toISOString() },
    chat(8, "user", "The same name elsewhere", { ...other, ...talk }),
    last("billing", "billing-last"),
    ...long,
    last("helpdesk", "last"),
  ]);
});
afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

describe("threads", () => {
  it("are listed and filtered as the API does", async () => {
    const visitor = await Visitor.signedIn(browser, server);
    const { page } = visitor;
    const list = page.getByRole("grid", { name: "Threads" });
    for (const query of ["app_id=billing", "agent=support-agent"]) {
      const { data } = await server.api(`/api/thread?${query}`);
      await visitor.goto(`/threads?${query}`);
      await list.getByRole("row").nth(1).waitFor();
      const shown = await list.getByRole("link").evaluateAll((links) => links.map((link) => link.getAttribute("href")));
      expect(shown.map((href) => decodeURIComponent(new URL(href ?? "", page.url()).pathname.slice(9)))).toEqual(
        data.map((thread: { thread_id: string }) => thread.thread_id),
      );
    }
    await visitor.goto("/threads");
    await list.getByText("window", { exact: true }).waitFor();
    await page.getByRole("combobox", { name: "User" }).fill("grace@example.com");
    await page.getByRole("combobox", { name: "User" }).press("Enter");
    await page.waitForURL(/user_email=grace/);
    await until("one thread", async () => (await list.getByRole("row").count()) === 2);
    await page.keyboard.press("Escape");
    await list.getByRole("link").click();
    await page.getByText("The same name elsewhere").waitFor();
    expect(new URL(page.url()).searchParams.get("app_id")).toBe("billing");
    await visitor.leave();
  });

  it("are read as a conversation, with the run of each message and other threads of that name", async () => {
    const visitor = await Visitor.signedIn(browser, server);
    const { page } = visitor;
    await visitor.goto("/threads/talk");
    await page.getByText("A thread with this id also exists in").waitFor();
    await page.getByRole("link", { name: "helpdesk" }).click();
    const messages = page.getByRole("article");
    await messages.getByText("Where is my order?").waitFor();
    await until("both messages are shown", async () => (await messages.count()) === 2);
    expect(await page.getByRole("region", { name: "Messages" }).locator("time").count()).toBe(4);
    expect(await messages.locator("pre").textContent()).toContain('{"state": "sent"}');
    const run = messages.getByRole("link", { name: "Run of message 2" });
    expect(await run.getAttribute("href")).toMatch(/^\/runs\/talk-run\?app_id=helpdesk/);
    await visitor.leave();
  });

  it("take feedback, which the API has, and show a message that comes meanwhile", async () => {
    const visitor = await Visitor.signedIn(browser, server);
    const { page } = visitor;
    await visitor.goto("/threads/talk?app_id=helpdesk");
    await page.getByRole("button", { name: "Comment…" }).click();
    await page.getByRole("radio", { name: "Bad" }).check();
    await page.getByLabel("Comment", { exact: true }).fill("It never came");
    await visitor.checkAccessibility();
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByText("Bad answer").waitFor();
    await page.getByText("It never came").waitFor();
    const feedback = await until("the feedback", async () => {
      const { messages } = await server.api("/api/thread/talk?app_id=helpdesk");
      return messages[1].feedback;
    });
    expect(feedback).toMatchObject({ rating: "negative", comment: "It never came" });
    expect((await server.api("/api/thread?feedback=negative")).data).toHaveLength(1);
    await page.getByRole("button", { name: "Good answer" }).click();
    await page.getByText("Good answer", { exact: true }).waitFor();
    await server.report([
      chat(0, "user", "It is here now!", { thread_id: "talk", run_id: "talk-late" }),
      last("helpdesk", "talk-late-run"),
    ]);
    await page.getByText("It is here now!").waitFor();
    await visitor.leave();
  });

  it("of thousands of messages have only those in sight in the page, and a way to the newest", async () => {
    const visitor = await Visitor.signedIn(browser, server);
    const { page } = visitor;
    await visitor.goto("/threads/long?app_id=helpdesk");
    await page.getByText("Message 0.").waitFor();
    expect(await page.getByRole("article").count()).toBeLessThan(40);
    await page.getByRole("button", { name: "Jump to newest" }).click();
    await page.getByText(`Message ${LONG - 1}.`).waitFor();
    expect(await page.getByRole("article").count()).toBeLessThan(40);
    await page.getByRole("button", { name: "Jump to newest" }).waitFor({ state: "detached" });
    await visitor.screenshot("thread-long");
    await visitor.leave();
  });

  it("show what is hostile as text, whatever the thread is called", async () => {
    const visitor = await Visitor.signedIn(browser, server, { dark: true });
    const { page } = visitor;
    await visitor.goto(`/threads/${encodeURIComponent(HOSTILE)}?app_id=helpdesk`);
    await page.getByText(SCRIPT).waitFor();
    const folded = page.getByRole("article").nth(1);
    expect(((await folded.textContent()) ?? "").length).toBeLessThan(2_500);
    await folded.getByRole("button", { name: "Show 40,000 more" }).click();
    await folded.getByRole("button", { name: "Fold" }).click();
    expect(await page.evaluate(() => (globalThis as { pwned?: number }).pwned)).toBeUndefined();
    await visitor.leave();
  });

  it("are accessible and readable in light and dark, wide and narrow", async () => {
    for (const [name, look] of Object.entries({ light: {}, dark: { dark: true }, phone: { phone: true } })) {
      const visitor = await Visitor.signedIn(browser, server, look);
      await visitor.goto("/threads");
      await visitor.page.getByRole("grid").getByRole("row").nth(1).waitFor();
      await visitor.checkAccessibility();
      await visitor.screenshot(`threads-${name}`);
      await visitor.goto("/threads/talk?app_id=helpdesk");
      await visitor.page.getByText("Anything else?").waitFor();
      await visitor.checkAccessibility();
      await visitor.screenshot(`thread-${name}`);
      await visitor.leave();
    }
    const visitor = await Visitor.signedIn(browser, server);
    await visitor.goto("/threads/missing");
    await visitor.page.getByRole("heading", { name: "Thread not found" }).waitFor();
    // Sessions that only runs name, as OpenTelemetry has them: with what was answered, and without anything.
    const silent = { ...last("helpdesk", "silent"), name: "session-agent_start", output: null, thread_id: "session-1" };
    await server.report([{ ...last("helpdesk", "answered"), thread_id: "session-2" }, silent]);
    await visitor.goto("/threads/session-2?app_id=helpdesk");
    await visitor.page.getByRole("article").getByText("done").waitFor();
    await visitor.goto("/threads/session-1?app_id=helpdesk");
    await visitor.page.getByRole("link", { name: "Runs of this thread" }).click();
    await visitor.page.getByText("session-agent").first().waitFor();
    await visitor.goto("/threads?app_id=missing");
    await visitor.page.getByRole("heading", { name: "No thread matches" }).waitFor();
    await visitor.leave();
  });
});
