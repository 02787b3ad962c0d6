/** The real binary as an operator starts it, on a port and in a folder of its own. */

import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const ROOT = resolve(import.meta.dirname, "../../..");
const BIN = resolve(ROOT, process.env.SPINDLE_BIN ?? "target/debug/spindle");
const READY_WITHIN_MS = 60_000;
const VISIBLE_WITHIN_MS = 30_000;
/** Between two questions while something is awaited that only asking can tell. */
const ASK_AGAIN_MS = 50;

export class Binary {
  readonly key = `sp_key_${randomBytes(24).toString("hex")}`;
  url = "";
  private readonly folder = mkdtempSync(join(tmpdir(), "spindle-client-"));
  private child: ChildProcess | undefined;

  static async start(): Promise<Binary> {
    const binary = new Binary();
    await binary.run();
    return binary;
  }

  private async run() {
    const address = join(this.folder, "data", "address");
    const token = `sp_tok_${randomBytes(24).toString("hex")}`;
    const child = spawn(BIN, ["serve", "--listen", "127.0.0.1:0", "--data-dir", join(this.folder, "data")], {
      cwd: ROOT,
      env: { ...process.env, SPINDLE_API_KEY: this.key, SPINDLE_ADMIN_TOKEN: token },
      stdio: ["ignore", "ignore", openSync(join(this.folder, "log"), "a")],
    });
    this.child = child;
    await this.until("the server is ready", READY_WITHIN_MS, async () => {
      if (child.exitCode !== null) throw new Error(`the server ended:\n${this.log()}`);
      try {
        this.url = readFileSync(address, "utf8").trim();
        return (await fetch(`${this.url}/health/ready`)).ok;
      } catch {
        return false;
      }
    });
  }

  /** Asks until it is so. */
  async until<T>(what: string, withinMs: number, ask: () => Promise<T | false | undefined>): Promise<T> {
    const end = Date.now() + withinMs;
    for (;;) {
      const value = await ask();
      if (value) return value;
      if (Date.now() > end) throw new Error(`${what}: not within ${withinMs / 1000} s\n${this.log()}`);
      await new Promise((wake) => setTimeout(wake, ASK_AGAIN_MS));
    }
  }

  /** Answers of the API. */
  async get(path: string): Promise<any> {
    const answer = await fetch(this.url + path, { headers: { Authorization: `Bearer ${this.key}` } });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  }

  /** The runs of these filters, by name, once there are as many as expected and all have ended. */
  runs(count: number, filters = ""): Promise<Record<string, any>[]> {
    return this.until("the runs can be read", VISIBLE_WITHIN_MS, async () => {
      const { data } = await this.get(`/api/run/?sort=started_at&limit=1000${filters}`);
      return data.length >= count && data.every(({ status }: { status: string }) => status !== "started") && data;
    });
  }

  log(): string {
    return readFileSync(join(this.folder, "log"), "utf8").slice(-5_000);
  }

  async stop() {
    const { child } = this;
    if (child && child.exitCode === null) {
      const ended = new Promise((done) => child.once("exit", done));
      child.kill("SIGTERM");
      await ended;
    }
    rmSync(this.folder, { recursive: true, force: true });
  }
}
