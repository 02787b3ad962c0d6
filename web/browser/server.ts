/** The real binary as an operator starts it, on a port and a folder of its own, and what is needed to talk to it. */

import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, openSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const ROOT = resolve(import.meta.dirname, "../..");
const BIN = resolve(ROOT, process.env.SPINDLE_BIN ?? "target/debug/spindle");
const READY_WITHIN_MS = 60_000;
const VISIBLE_WITHIN_MS = 30_000;
/** Between two questions while something is awaited that only asking can tell. */
const ASK_AGAIN_MS = 50;

/** An event as clients report it. */
export type Event = Record<string, unknown>;

/** Asks until it is so; says what was awaited when it never was. */
export async function until<T>(
  what: string,
  ask: () => Promise<T | undefined | false | null>,
  within = VISIBLE_WITHIN_MS,
) {
  const end = Date.now() + within;
  for (;;) {
    const asked = Date.now();
    const value = await ask();
    if (value) return value;
    if (Date.now() > end) throw new Error(`${what}: not within ${within / 1000} s`);
    // About as long as the answer took: large questions leave the machine to what they wait for.
    const pause = Math.min(Math.max(Date.now() - asked, ASK_AGAIN_MS), 10 * ASK_AGAIN_MS);
    await new Promise((wake) => setTimeout(wake, pause));
  }
}

/** A running server. */
export class Server {
  /** Secrets of the first start. */
  readonly key = `sp_key_${randomBytes(24).toString("hex")}`;
  readonly token = `sp_tok_${randomBytes(24).toString("hex")}`;
  url = "";
  private readonly folder = mkdtempSync(join(tmpdir(), "spindle-web-"));
  private process: ChildProcess | undefined;

  /** Starts one. `settings` are environment variables, such as `SPINDLE_AUTH__SESSION_LIFETIME`. */
  static async start(settings: Record<string, string> = {}): Promise<Server> {
    const server = new Server(settings);
    await server.run("127.0.0.1:0");
    return server;
  }

  private constructor(private readonly settings: Record<string, string>) {}

  private async run(listen: string) {
    const log = openSync(join(this.folder, "server.log"), "a");
    const address = join(this.folder, "data", "address");
    rmSync(address, { force: true });
    const env = {
      ...process.env,
      SPINDLE_API_KEY: this.key,
      SPINDLE_ADMIN_TOKEN: this.token,
      // Events in tests have fixed times, which get older.
      SPINDLE_INGEST__MAX_EVENT_AGE: "0s",
      ...this.settings,
    };
    const child = spawn(BIN, ["serve", "--listen", listen, "--data-dir", join(this.folder, "data")], {
      cwd: ROOT,
      env,
      stdio: ["ignore", "ignore", log],
    });
    this.process = child;
    const isUp = async () => {
      if (child.exitCode !== null) throw new Error(`the server ended:\n${this.log()}`);
      try {
        this.url = readFileSync(address, "utf8").trim();
        return (await fetch(`${this.url}/health/ready`)).ok;
      } catch {
        return false;
      }
    };
    try {
      await until("the server is ready", isUp, READY_WITHIN_MS);
    } catch (error) {
      throw new Error(`${error}\n${this.log()}`);
    }
  }

  /** What it wrote. */
  log(): string {
    return readFileSync(join(this.folder, "server.log"), "utf8").slice(-5_000);
  }

  /** The port on loopback of its embedded engine: the one on which its child listens. */
  enginePort(): number {
    const tasks = `/proc/${this.process?.pid}/task`;
    const children = readdirSync(tasks).map((task) => readFileSync(join(tasks, task, "children"), "utf8").trim());
    const engine = children.find((child) => child !== "");
    const descriptors = `/proc/${engine}/fd`;
    const sockets = new Set(readdirSync(descriptors).map((name) => readlinkSync(join(descriptors, name))));
    for (const line of readFileSync(`/proc/${engine}/net/tcp`, "utf8").split("\n")) {
      const [, address, , state, , , , , , inode] = line.trim().split(/\s+/);
      if (state === "0A" && sockets.has(`socket:[${inode}]`)) return Number.parseInt(address?.split(":")[1] ?? "", 16);
    }
    throw new Error("the engine listens nowhere");
  }

  private async end(signal: NodeJS.Signals) {
    const child = this.process;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((done) => child.once("exit", done));
    child.kill(signal);
    await ended;
  }

  /** Ends it without a word. What is asked of it fails until [`Server.again`]. */
  async kill() {
    await this.end("SIGKILL");
  }

  /** Starts it again on the same port and folder. */
  async again() {
    await this.run(new URL(this.url).host);
  }

  /** Ends it as an operator does, and its folder with it. */
  async stop() {
    await this.end("SIGTERM");
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Asks the API with the admin token, or another one. */
  async api<T = any>(path: string, init: RequestInit & { token?: string; json?: unknown } = {}): Promise<T> {
    const headers = new Headers(init.headers);
    headers.set("Authorization", `Bearer ${init.token ?? this.token}`);
    if (init.json !== undefined) headers.set("Content-Type", "application/json");
    const body = init.json === undefined ? {} : { body: JSON.stringify(init.json) };
    const answer = await fetch(this.url + path, { ...init, headers, ...body });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${init.method ?? "GET"} ${path}: ${answer.status} ${text}`);
    return (text === "" ? undefined : JSON.parse(text)) as T;
  }

  /** Reports events and waits until their runs can be read. */
  async report(events: Event[]) {
    const answer = await this.api("/api/report", { method: "POST", json: { events }, token: this.key });
    if (answer.rejected > 0) throw new Error(JSON.stringify(answer.errors));
    // Records of one app are processed in order, and apps differ: so each is asked for its last run.
    const last = new Map(events.map((event) => [event.app_id, event.run_id]));
    for (const [app, run] of last) {
      const path = `/api/run/${encodeURIComponent(String(run))}${app ? `?app_id=${app}` : ""}`;
      await until(`run ${run}`, async () => {
        const got = await fetch(this.url + path, { headers: { Authorization: `Bearer ${this.token}` } });
        await got.arrayBuffer();
        return got.ok;
      });
    }
  }

  /** Makes a token; the answer has its `id` and its `secret`. */
  makeToken(role: string, more: Record<string, unknown> = {}): Promise<{ id: string; secret: string }> {
    return this.api("/api/internal/tokens", { method: "POST", json: { name: `${role} of a test`, role, ...more } });
  }
}
