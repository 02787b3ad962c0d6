/** A client: what an application uses to say what its agents do. */

import { currentContext, runIn } from "./context.js";
import { type Event, idOf, nameOf, type RunType, tagsOf, userOf } from "./event.js";
import { Journal } from "./journal.js";
import { Reporter } from "./reporter.js";
import { isRun, Run, type RunOptions } from "./run.js";
import { type Options, settingsOf } from "./settings.js";
import { cutText } from "./snapshot.js";
import type { Stats } from "./stats.js";
import { type AnyFunction, type WrapperOptions, wrap } from "./wrapper.js";

/** A message of a conversation. */
export interface Message {
  role: "user" | "assistant";
  content: string;
  /** Conversation. Without one, messages of one agent and user belong together while they follow within 30 minutes. */
  thread?: string | undefined;
  /** The run the message belongs to, or a name of its own for feedback. Default: the current run, else a new id. */
  run?: Run | string | undefined;
  /** E-mail address or another name of the user. */
  user?: string | undefined;
  /** Default: the nearest agent around. */
  agent?: string | undefined;
}

/** Characters of a message or comment, below the server's limit for one event. */
const TEXT_CHARS = 256 * 1024;

/** With the flush, below the 30 seconds that Workers have after their response. */
const RUNS_MS = 25_000;

/**
 * Reports runs, messages and feedback, in the background and as well as it can.
 *
 * No method blocks, throws or rejects because of the library, the network or the server; only what the application's
 * own functions throw comes through. What is lost is counted in `stats()`.
 */
export class Spindle {
  private readonly journal: Journal;
  private readonly reporter: Reporter;

  /** Reads options and environment; nothing is sent before there is an event. */
  constructor(options: Options = {}) {
    const settings = settingsOf(options ?? {});
    this.reporter = new Reporter(settings);
    this.journal = new Journal(settings, this.reporter);
  }

  /** Begins a run that is ended by hand, with `end` or `fail`. It is not the current run; see `Run.within`. */
  start(type: RunType, options: RunOptions = {}): Run {
    try {
      return new Run(this.journal, type, options ?? {}, currentContext());
    } catch (error) {
      // Options whose fields throw when they are read.
      this.reporter.fault(error);
      return new Run(this.journal, type, {}, {});
    }
  }

  /** Wraps a function so that each call is a run of type agent. Runs inside it belong to it. */
  agent<F extends AnyFunction>(name: string, fn: F, options?: WrapperOptions<F>): F {
    return wrap((run) => this.start("agent", run), name, fn, options);
  }

  /** The same for a chain of steps. */
  chain<F extends AnyFunction>(name: string, fn: F, options?: WrapperOptions<F>): F {
    return wrap((run) => this.start("chain", run), name, fn, options);
  }

  /** The same for a tool. */
  tool<F extends AnyFunction>(name: string, fn: F, options?: WrapperOptions<F>): F {
    return wrap((run) => this.start("tool", run), name, fn, options);
  }

  /** The same for a model call; say `model` and `usage` so that it gets a price. */
  llm<F extends AnyFunction>(name: string, fn: F, options?: WrapperOptions<F>): F {
    return wrap((run) => this.start("llm", run), name, fn, options);
  }

  /** Reports a message of a conversation. Answers the run id it belongs to, for feedback on it. */
  chat(message: Message): string {
    try {
      return this.write(message ?? {});
    } catch (error) {
      // A message whose fields throw when they are read.
      this.reporter.fault(error);
      return this.journal.newRunId();
    }
  }

  private write({ role, content, thread, run, user, agent }: Partial<Message>): string {
    const around = currentContext();
    const id = runIdOf(run) ?? around.run?.id ?? this.journal.newRunId();
    this.journal.write("chat", id, () => ({
      role: labelOf(role),
      content: cutText(typeof content === "string" ? content : asText(content), TEXT_CHARS),
      thread_id: idOf(thread) ?? around.thread,
      user_email: userOf(user) ?? around.user,
      agent: nameOf(agent, "") || around.agent,
    }));
    return id;
  }

  /** Reports feedback on a run or a message, by its id. Without one nothing is sent. */
  feedback(run: Run | string, rating: "positive" | "negative", comment?: string): void {
    this.mark("feedback", run, () => ({
      rating: labelOf(rating),
      comment: typeof comment === "string" ? cutText(comment, TEXT_CHARS) : undefined,
    }));
  }

  /** Keeps a run beyond the usual time and makes it part of datasets. Without an id nothing is sent. */
  saved(run: Run | string): void {
    this.mark("saved", run, () => ({}));
  }

  /** Takes `saved` back. */
  unsaved(run: Run | string): void {
    this.mark("unsaved", run, () => ({}));
  }

  private mark(name: string, run: Run | string, fields: () => Partial<Event>): void {
    let id: string | undefined;
    try {
      id = runIdOf(run);
    } catch {
      // An object that does not say its id.
    }
    if (id === undefined) this.reporter.tell(`${name} was given no id of a run, and is not sent`);
    else this.journal.write(name, id, fields);
  }

  /** The run that new runs would belong to. Where there is no `AsyncLocalStorage`, as in pages, it is known until the first `await`. */
  currentRun(): Run | undefined {
    const { run } = currentContext();
    return isRun(run) ? run : undefined;
  }

  /** Runs `fn` so that runs inside it get these tags, beside those from further outside. */
  withTags<T>(tags: readonly string[], fn: () => T): T {
    const around = currentContext();
    return runIn({ ...around, tags: tagsOf(around.tags, tags) }, fn);
  }

  /** Runs `fn` so that runs and messages inside it belong to this user. */
  withUser<T>(user: string, fn: () => T): T {
    return runIn({ ...currentContext(), user: userOf(user) }, fn);
  }

  /** Runs `fn` so that runs and messages inside it belong to this conversation. */
  withThread<T>(thread: string, fn: () => T): T {
    return runIn({ ...currentContext(), thread: idOf(thread) }, fn);
  }

  /** Numbers of what was sent and lost. */
  stats(): Stats {
    return this.reporter.stats();
  }

  /** Resolves when what waits now was sent or dropped, true, or after `withinMs`, false. Without a bound it waits for both. */
  flush(withinMs?: number): Promise<boolean> {
    return this.reporter.flush(withinMs);
  }

  /**
   * Waits until the runs that are open have ended, at most `withinMs` (default 25,000), then flushes within the time for
   * the last flush. Resolves as `flush` does, and never rejects.
   *
   * For `waitUntil` of a Worker: the run of a streamed response ends after the response was returned.
   */
  async flushAfterRuns(withinMs = RUNS_MS): Promise<boolean> {
    await this.journal.idle(withinMs);
    return this.reporter.flush(this.reporter.exitTimeoutMs);
  }

  /** Flushes within `withinMs` (default: the time for the last flush), drops what is left, and takes nothing more. */
  close(withinMs?: number): Promise<boolean> {
    return this.reporter.close(withinMs);
  }
}

function runIdOf(run: Run | string | undefined): string | undefined {
  return idOf(isRun(run) ? run.id : run);
}

/** A role or a rating as a short text, whatever it is; the server says what it takes. */
function labelOf(value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  return nameOf(typeof value === "string" ? value : asText(value), "");
}

function asText(content: unknown): string {
  try {
    return JSON.stringify(content) ?? "";
  } catch {
    return "[unreadable]";
  }
}
