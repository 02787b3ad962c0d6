/** One run: a step of an agent with a beginning and, some time, an end. */

import { type Context, runIn } from "./context.js";
import { type Event, errorOf, idOf, nameOf, type RunType, tagsOf, type Usage, usageFields, userOf } from "./event.js";
import type { Journal } from "./journal.js";
import type { Json } from "./snapshot.js";
import { CLIENT_KEY, NAME } from "./version.js";

/** What may be said about a run when it begins. */
export interface RunOptions {
  /** Display name. Default: the type. */
  name?: string | undefined;
  /** Id, unique in the app. Default: a UUID. One above 256 bytes is shortened, with its hash at the end. */
  runId?: string | undefined;
  /** The run it belongs to, or its id; `null` for none. Default: the current run. */
  parent?: Run | string | null | undefined;
  /** Any value; a bounded copy is reported. */
  input?: unknown;
  /** The model that is asked. */
  model?: string | undefined;
  tags?: readonly string[] | undefined;
  /** E-mail address or another name of the user. */
  user?: string | undefined;
  /** Conversation. */
  thread?: string | undefined;
  metadata?: Record<string, unknown> | undefined;
  /** Default: the client's. */
  captureInput?: boolean | undefined;
  /** Default: the client's. */
  captureOutput?: boolean | undefined;
}

/** A run that has begun. Its methods never throw; after the first `end` or `fail` they do nothing more. */
export class Run {
  readonly id: string;
  readonly type: RunType;
  readonly name: string;
  readonly parentId: string | undefined;
  /** What runs inside of this one inherit. */
  readonly context: Context;
  /** Whether outputs of this run are reported. */
  readonly capturesOutput: boolean;
  private spent: Usage = {};
  private isOver = false;
  private readonly asked: string | undefined;
  /** What was added since the run began. */
  private added: Record<string, Json> | undefined;
  private readonly beganMs = now();

  /** Begins the run and reports that; use `Spindle.start`. */
  constructor(
    private readonly journal: Journal,
    type: RunType,
    options: RunOptions,
    around: Context,
  ) {
    const { parent } = options;
    const inherited = isRun(parent) ? parent.context : around;
    this.type = type;
    this.name = nameOf(options.name, type);
    this.id = idOf(options.runId) ?? journal.newRunId();
    this.parentId = parent === null ? undefined : (idOf(parent) ?? inherited.run?.id);
    this.capturesOutput = options.captureOutput ?? journal.settings.captureOutput;
    const tags = tagsOf(inherited.tags, options.tags);
    const user = userOf(options.user) ?? inherited.user;
    const thread = idOf(options.thread) ?? inherited.thread;
    const agent = type === "agent" ? this.name : inherited.agent;
    this.context = { run: this, agent, tags, user, thread };
    journal.opened();
    const capturesInput = options.captureInput ?? journal.settings.captureInput;
    this.asked = options.model === undefined ? undefined : nameOf(options.model, "") || undefined;
    journal.write(`${this.name}_start`, this.id, () => ({
      parent_run_id: this.parentId,
      type,
      input: capturesInput ? journal.keep(options.input) : undefined,
      metadata: withClient(journal.keep(options.metadata), this.parentId === undefined),
      model: this.asked,
      tags,
      user_email: user,
      agent,
      thread_id: thread,
    }));
  }

  /** Stores these keys with the run; keys of a second call replace equal keys of the first. */
  metadata(keys: Record<string, unknown>): void {
    if (this.isOver) return;
    const kept = this.journal.copy(keys);
    if (isObject(kept)) this.added = { ...this.added, ...kept };
  }

  /** Call it when the first token of a streamed answer is there: it sets `ttftMs`. Only the first call counts. */
  firstToken(): void {
    this.spent.ttftMs ??= Math.max(0, Math.round(now() - this.beganMs));
  }

  /** Says what a model call spent; may be called more than once, the latest word on each number counts. */
  usage(usage: Usage | undefined): void {
    if (usage === undefined || usage === null) return;
    try {
      for (const name of Object.keys(usage)) this.spend(name, usage);
    } catch {
      // Nothing of it can be read.
    }
  }

  private spend(name: string, usage: Usage): void {
    try {
      const value = usage[name as keyof Usage];
      if (value !== undefined && value !== null) this.spent = { ...this.spent, [name]: value };
    } catch {
      // A number that cannot be read was not said.
    }
  }

  /** Ends the run with success. */
  end(output?: unknown, usage?: Usage): void {
    this.finish("end", output, usage, undefined);
  }

  /** Ends the run with an error: anything that was thrown. `output` is what there was before. */
  fail(error: unknown, output?: unknown, usage?: Usage): void {
    this.finish("error", output, usage, { error: errorOf(error) });
  }

  /** Runs `fn` with this run as the current one; runs that begin inside belong to it. */
  within<T>(fn: () => T): T {
    return runIn(this.context, fn);
  }

  private finish(phase: "end" | "error", output: unknown, usage: Usage | undefined, more: Partial<Event> | undefined) {
    if (this.isOver) return;
    this.isOver = true;
    const { journal } = this;
    this.usage(usage);
    journal.write(`${this.name}_${phase}`, this.id, () => {
      const fields = usageFields(this.spent);
      const isOther = fields.model !== undefined && this.asked !== undefined && fields.model !== this.asked;
      return {
        type: this.type,
        parent_run_id: this.parentId,
        metadata: isOther ? { ...this.added, requested_model: this.asked } : this.added,
        output: this.capturesOutput ? journal.keep(output) : undefined,
        ...fields,
        ...more,
      };
    });
    // After its last event: a caller that waits for this flushes next.
    journal.ended();
  }
}

/** Milliseconds of a clock that is never set. */
function now(): number {
  return globalThis.performance?.now() ?? Date.now();
}

function isObject(value: Json): value is Record<string, Json> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The metadata of a run; without a parent it names this library and its version. */
function withClient(metadata: Json, isRoot: boolean): Json {
  if (!isRoot || (metadata !== undefined && !isObject(metadata))) return metadata;
  return { [CLIENT_KEY]: NAME, ...metadata };
}

/** Whether a value is a run, also one of the same library loaded a second time. */
export function isRun(value: unknown): value is Run {
  return typeof value === "object" && value !== null && "id" in value && "context" in value;
}
