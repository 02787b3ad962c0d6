import { execFileSync } from "node:child_process";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Shapes } from "../api/client";
import { eventsOf, plainJson, readCommand, reportCommand, shellWord } from "./curl";

const HOSTILE = [
  "it's",
  "'; touch /tmp/pwned; '",
  "$(id) `id` $HOME $SPINDLE_API_KEY",
  "a\nSPINDLE_EVENTS\nid\n",
  "!! !-1 \\! \\",
  "\\u0027 \\' \"",
  "-n -e --help",
  "\x1b[2J\x7f\x08\x03\t\r",
  "\u202egnp.exe \u2028 🙂 \ud800",
  "",
];
const hostile = fc.oneof(fc.constantFrom(...HOSTILE), fc.string({ unit: "binary", maxLength: 60 }));

/** As UTF-8 holds it, which has no half characters. */
const wellFormed = (text: string) => Buffer.from(text).toString();

/** Runs a command in a real shell, with a curl that says what it was given. */
function ask(command: string): { words: string[]; text: string } {
  const stub = `curl() { printf 'w%s\\0' "$@"; printf 'e\\0'; case " $* " in *"@-"*) cat;; esac; }\n`;
  const env = { PATH: process.env.PATH ?? "", HOME: "/nowhere", SPINDLE_API_KEY: "the-key" };
  const out = execFileSync("sh", { input: stub + command, env, encoding: "utf8" }).split("\0");
  const end = out.indexOf("e");
  return { words: out.slice(0, end).map((word) => word.slice(1)), text: out[end + 1] ?? "" };
}

const run = (id: string, payload: unknown) =>
  ({
    run_id: id,
    app_id: id,
    name: "llm_call",
    type: "llm",
    status: "success",
    started_at: "2026-11-21T10:00:00.000Z",
    ended_at: "2026-11-21T10:00:01.000Z",
    tags: [id],
    input: payload,
    output: { text: payload },
    error: null,
    metadata: { [id]: payload },
    fields: {},
    cost: 1.5,
    cost_status: "priced",
  }) as unknown as Shapes["RunDetail"];

describe("a word of a shell", () => {
  it("is the text itself, whatever is in it", () => {
    const list = fc.sample(hostile, { numRuns: 300, seed: 6 }).map((text) => text.replaceAll("\0", ""));
    const clean = list.map(wellFormed);
    // All of them in one shell: starting one for each takes seconds.
    expect(ask(`curl ${clean.map(shellWord).join(" ")}`).words).toEqual(clean);
    expect(shellWord("a\0b")).toBe("'ab'");
  });
});

describe("a command that reads a run", () => {
  it("asks for this run, with the key from the environment", () => {
    for (const id of HOSTILE.map(wellFormed)) {
      const { words } = ask(readCommand("http://localhost:7070", { run_id: id, app_id: id, project_id: "p" }));
      expect(words).toContain("Authorization: Bearer the-key");
      const address = new URL(words.at(-1) ?? "");
      expect(decodeURIComponent(address.pathname.slice("/api/run/".length))).toBe(id);
      expect([address.host, address.searchParams.get("app_id")]).toEqual(["localhost:7070", id]);
    }
  });
});

describe("a command that reports a run again", () => {
  it("sends what was reported, and the shell and the terminal see nothing in it", () => {
    for (const text of HOSTILE) {
      const events = eventsOf(run(text, [text, { [text]: text }]), "again");
      const command = reportCommand("http://localhost:7070", events);
      expect(command).toMatch(/^[\n\x20-\x7e]*$/);
      const said = ask(command);
      expect(said.words).toContain("http://localhost:7070/api/report");
      expect(JSON.parse(said.text)).toEqual({ events });
    }
  });

  it("holds JSON of printable letters that means the same", () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: "binary" }), (value) => {
        const text = plainJson(value);
        expect(text).toMatch(/^[\x20-\x7e]*$/);
        expect(text).not.toContain("!");
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });

  it("says neither what is not known nor what the server counts", () => {
    const [start, end] = eventsOf(run("a", 1), "b");
    expect(start).toMatchObject({ name: "llm_call_start", run_id: "b", app_id: "a", input: 1 });
    expect(end).toMatchObject({ name: "llm_call_end", run_id: "b", output: { text: 1 } });
    expect(end).not.toHaveProperty("cost");
    expect(end).not.toHaveProperty("error");
    expect(eventsOf({ ...run("a", 1), ended_at: null }, "b")).toHaveLength(1);
  });
});
