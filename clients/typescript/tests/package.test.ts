import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { VERSION } from "../src/version.js";
import { Binary } from "./binary.js";
import { Reports } from "./server.js";

const ROOT = resolve(import.meta.dirname, "..");
const EXAMPLES = resolve(ROOT, "../../examples/typescript");

/** An application with the package installed from its archive. */
let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "spindle-package-"));
  const npm = (...args: string[]) => execFileSync("npm", args, { cwd: folder, encoding: "utf8", stdio: "pipe" });
  // The build is there already.
  npm("pack", ROOT, "--ignore-scripts", "--silent");
  const [archive] = readdirSync(folder);
  writeFileSync(join(folder, "package.json"), '{ "name": "app", "private": true, "type": "module" }');
  npm("install", "--offline", "--no-audit", "--no-fund", `./${archive}`);
  symlinkSync(join(ROOT, "node_modules/openai"), join(folder, "node_modules/openai"));
});
afterAll(() => rmSync(folder, { recursive: true }));

function write(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

function run(path: string, env: Record<string, string> = {}, ...flags: string[]): Promise<string> {
  return new Promise((done, fail) => {
    import("node:child_process").then(({ execFile }) =>
      execFile(
        process.execPath,
        [...flags, path],
        { cwd: folder, env: { PATH: process.env.PATH, ...env } },
        (error, out, err) => (error ? fail(new Error(`${error}\n${err}`)) : done(out + err)),
      ),
    );
  });
}

test("the package holds the builds and their types, no sources, and depends on nothing", () => {
  const installed = join(folder, "node_modules/@spindle/client");
  expect(readdirSync(installed).sort()).toEqual(["CHANGELOG.md", "LICENSE", "README.md", "dist", "package.json"]);
  const manifest = JSON.parse(readFileSync(join(installed, "package.json"), "utf8"));
  expect(manifest).toMatchObject({
    name: "@spindle/client",
    license: "Apache-2.0",
    publishConfig: { access: "public" },
  });
  expect(manifest.version).toBe(VERSION);
  expect(manifest.private).toBeUndefined();
  expect(manifest.keywords.length).toBeGreaterThan(0);
  expect(readFileSync(join(installed, "LICENSE"), "utf8")).toBe(readFileSync(join(ROOT, "../../LICENSE"), "utf8"));
  expect(readFileSync(join(installed, "CHANGELOG.md"), "utf8")).toContain(`## ${manifest.version}`);
  // Links of the page at a registry lead nowhere inside of it.
  expect(readFileSync(join(installed, "README.md"), "utf8")).not.toMatch(/\]\((?!https?:)/);
  expect(manifest.dependencies ?? manifest.peerDependencies).toBeUndefined();
  for (const conditions of Object.values<Record<string, Record<string, string> | string>>(manifest.exports)) {
    if (typeof conditions === "string") continue;
    for (const target of Object.values(conditions).flatMap((way) =>
      typeof way === "string" ? [way] : Object.values(way),
    )) {
      expect(readFileSync(join(installed, target), "utf8").length).toBeGreaterThan(0);
      expect(readFileSync(join(installed, target.replace(/js$/, "d.ts")), "utf8").length).toBeGreaterThan(0);
    }
  }
});

test("it works by import and by require, which share the current run and the default client", async () => {
  const reports = await Reports.start();
  const path = write(
    "both.mjs",
    `import { createRequire } from "node:module";
     import { agent, stats } from "@spindle/client";
     import { observeOpenAI } from "@spindle/client/openai";
     import { observeAnthropic } from "@spindle/client/anthropic";
     import { SpindleHandler } from "@spindle/client/langchain";
     const required = createRequire(import.meta.url)("@spindle/client");
     const ways = [observeOpenAI, observeAnthropic, SpindleHandler];
     for (const name of ["openai", "anthropic", "langchain"]) ways.push(Object.values(createRequire(import.meta.url)("@spindle/client/" + name))[0]);
     if (agent === required.agent || new Set(ways).size !== 6) throw new Error("not two builds");
     agent("outer", () => required.tool("inner", () => 1)())();
     await required.flush();
     console.log(stats().accepted);`,
  );
  expect(await run(path, { SPINDLE_URL: reports.url })).toBe("4\n");
  expect(reports.event("inner_start").parent_run_id).toBe(reports.event("outer_start").run_id);
  await reports.stop();
});

test("the browser's build is what the condition gives, and it needs nothing of Node", async () => {
  const path = write(
    "page.mjs",
    `console.log(import.meta.resolve("@spindle/client"), import.meta.resolve("@spindle/client/openai"));`,
  );
  expect(await run(path, {}, "-C", "browser")).toMatch(
    /dist\/browser\/esm\/index\.js .*dist\/browser\/esm\/openai\.js/,
  );
  const browser = join(folder, "node_modules/@spindle/client/dist/browser");
  for (const file of readdirSync(browser, { recursive: true, encoding: "utf8" })) {
    if (file.endsWith(".js"))
      expect(readFileSync(join(browser, file), "utf8")).not.toMatch(/\b(from|import|require)\b[\s(]*["']node:/);
  }
});

test("an application of types compiles against it, as modules and for bundlers, and mistakes do not", () => {
  const source = `
    import { agent, type Options, Spindle, type Stats, tool, type Usage } from "@spindle/client";
    import { observeOpenAI } from "@spindle/client/openai";
    import { observeAnthropic } from "@spindle/client/anthropic";
    import { SpindleHandler } from "@spindle/client/langchain";
    const options: Options = { url: "http://127.0.0.1:7070", retries: 1 };
    const spindle = new Spindle(options);
    const add = tool("add", (a: number, b: number) => a + b, { output: (sum) => sum.toFixed(), usage: (): Usage => ({}) });
    const sum: number = add(1, 2);
    const ask: (q: string) => Promise<string> = agent("ask", async (q: string) => q + sum);
    const words: () => AsyncGenerator<string> = spindle.llm("words", async function* () { yield await ask("q"); });
    const client: { chat: object } = observeOpenAI({ chat: {} });
    const stats: Stats = spindle.stats();
    void [words, client, stats.dropped.queue_full, observeAnthropic, new SpindleHandler({ spindle })];
    // @ts-expect-error a role that there is not
    spindle.chat({ role: "system", content: "" });
    // @ts-expect-error a wrapped function keeps its parameters
    add("1", 2);
  `;
  for (const name of ["module.mts", "script.cts", "bundled.ts"]) write(name, source);
  const tsc = (...args: string[]) => {
    const flags = [
      "--noEmit",
      "--strict",
      "--exactOptionalPropertyTypes",
      "--target",
      "es2022",
      "--skipDefaultLibCheck",
    ];
    try {
      execFileSync(process.execPath, [join(ROOT, "node_modules/typescript/bin/tsc"), ...flags, ...args], {
        cwd: folder,
      });
    } catch (error) {
      throw new Error(String((error as { stdout: Buffer }).stdout));
    }
  };
  tsc("--module", "nodenext", "--lib", "es2022,dom", "module.mts", "script.cts");
  tsc(
    "--module",
    "esnext",
    "--moduleResolution",
    "bundler",
    "--customConditions",
    "browser",
    "--lib",
    "es2022,dom",
    "bundled.ts",
  );
});

describe("the example against the real binary", () => {
  let binary: Binary;

  beforeAll(async () => {
    binary = await Binary.start();
  });
  afterAll(() => binary?.stop());

  test("its runs, costs, conversation, feedback and mark come out right", async () => {
    const example = join(folder, "example");
    mkdirSync(example);
    for (const name of ["agent.mjs", "stub-model.mjs"]) cpSync(join(EXAMPLES, name), join(example, name));
    const settings = {
      SPINDLE_URL: binary.url,
      SPINDLE_API_KEY: binary.key,
      SPINDLE_APP_ID: "weather",
      THREAD: "talk-7",
    };
    const said = await run(join(example, "agent.mjs"), settings);
    expect(said).toContain("accepted: 14");
    expect(said).toContain("rejected: 0");

    const runs = await binary.runs(5, "&app_id=weather");
    // Runs that begin in the same millisecond are in no order.
    expect(runs.map(({ name, type, status }) => `${name} ${type} ${status}`).sort()).toEqual([
      "get_weather tool error",
      "get_weather tool success",
      "openai.chat llm success",
      "openai.chat llm success",
      "weather-agent agent success",
    ]);
    const [failed, tool, first, second, agent] = runs.sort((one, other) =>
      `${one.name} ${one.status}`.localeCompare(`${other.name} ${other.status}`),
    ) as any[];
    expect(agent.parent_run_id).toBeNull();
    for (const child of [first, tool, second]) expect(child.parent_run_id).toBe(agent.run_id);
    expect(failed.parent_run_id).toBeNull();
    expect(failed.error).toMatchObject({ name: "Error", message: "no weather station in Atlantis" });
    for (const one of runs) {
      expect(one).toMatchObject({ user_email: "ada@example.com", thread_id: "talk-7", tags: ["example"] });
    }
    for (const call of [first, second]) {
      expect(call).toMatchObject({
        prompt_tokens: 37,
        completion_tokens: 11,
        agent: "weather-agent",
        cost_status: "priced",
      });
      expect(call.cost).toBeGreaterThan(0);
    }
    expect(agent.total_cost).toBeCloseTo(first.cost + second.cost, 12);
    expect(agent).toMatchObject({
      llm_calls: 2,
      saved: true,
      feedback: { rating: "positive", comment: "brief and right" },
    });

    const whole = await binary.get(`/api/run/${agent.run_id}`);
    expect(whole.input).toBe("What is the weather in Paris?");
    const tree = JSON.stringify(await binary.get(`/api/run/${agent.run_id}/tree`));
    for (const child of [first, tool, second]) expect(tree).toContain(child.run_id);

    const thread = await binary.get("/api/thread/talk-7?app_id=weather");
    expect(thread.messages.map(({ role, content }: any) => [role, content])).toEqual([
      ["user", "What is the weather in Paris?"],
      ["assistant", "Paris has 18 degrees and light rain."],
    ]);
    expect(thread.messages[1].feedback).toMatchObject({ rating: "positive" });
  });
});
