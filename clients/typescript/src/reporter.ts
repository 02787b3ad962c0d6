/** From the application to the server: takes events without ever blocking, and sends them behind its back. */

import type { Event } from "./event.js";
import type { Ending, LastWords } from "./platform/surface.js";
import { platform } from "./platform.js";
import { BoundedQueue } from "./queue.js";
import { send } from "./sender.js";
import type { Settings } from "./settings.js";
import { Ledger, type Stats } from "./stats.js";

/** What an event takes beside its contents: names of fields, ids and the time. */
const EVENT_BYTES = 400;
const OPENING = '{"events":[';
const CLOSING = "]}";

/** Events on their way, as one request. */
interface Batch {
  body: string;
  count: number;
  bytes: number;
}

/**
 * The queue and the sender that empties it.
 *
 * One request is under way at a time. A flush begins when the interval is over or a batch is full, and goes on until
 * the queue is empty or a request failed. Nothing here throws or rejects.
 */
export class Reporter implements Ending {
  private readonly queue: BoundedQueue<Event>;
  private readonly ledger: Ledger;
  private readonly unwatch: () => void;
  private timer: unknown;
  /** The timer is for at once, or for a rest after a failure: events that come do not hurry it. */
  private timerStands = false;
  private flushing: Promise<void> | undefined;
  /** Requests that are not answered yet. A second one there is only when a page is left. */
  private readonly underWay = new Map<Batch, Promise<unknown>>();
  private isClosed = false;
  /** A caller waits for the end: no further backoff, and at most one further try. */
  private isEnding = false;
  /** Ends each wait for another try. */
  private readonly waits = new Set<() => void>();
  /** Ends what is under way. */
  private haste = new AbortController();

  constructor(private readonly settings: Settings) {
    this.queue = new BoundedQueue(settings.queueEvents, settings.queueBytes);
    this.ledger = new Ledger(settings.warn);
    this.unwatch = settings.flushAtExit ? platform.watchEnd(this) : () => {};
  }

  get exitTimeoutMs(): number {
    return this.settings.exitTimeoutMs;
  }

  /** Whether an event would be taken now. Otherwise the loss is counted, and the event need not be made. */
  admits(): boolean {
    if (this.isClosed) this.ledger.drop("closed", 1, "an event came after close()");
    else if (this.queue.isFull) this.ledger.drop("queue_full", 1, "the queue is full");
    else return true;
    return false;
  }

  /** Takes an event whose contents take about `bytes`. */
  report(event: Event, bytes: number): void {
    if (!this.queue.push(event, bytes + EVENT_BYTES)) {
      this.ledger.drop("queue_full", 1, "the queue is full");
      return;
    }
    this.ledger.queued++;
    if (this.flushing) return;
    const isFull = this.queue.length >= this.settings.batchEvents || this.queue.bytes >= this.settings.batchBytes;
    if (isFull && !this.timerStands) this.wake(0);
    else if (this.timer === undefined) this.wake(this.settings.flushIntervalMs);
  }

  /** A failure of the library itself: told, never thrown. */
  fault(error: unknown): void {
    this.ledger.say("fault", `a fault of the library (${error instanceof Error ? error.name : typeof error})`);
  }

  /** A warning about the use of the library, as rare as the others. */
  tell(why: string): void {
    this.ledger.say("use", why);
  }

  stats(): Stats {
    return this.ledger.stats(this.waiting());
  }

  private waiting(): number {
    let waiting = this.queue.length;
    for (const batch of this.underWay.keys()) waiting += batch.count;
    return waiting;
  }

  /**
   * Resolves once everything that waits now was sent or dropped, or after `withinMs`.
   * True when nothing of it waits any more.
   */
  async flush(withinMs = Number.POSITIVE_INFINITY): Promise<boolean> {
    const target = this.ledger.queued;
    const settled = () => this.ledger.queued - this.waiting();
    const isDone = () => settled() >= target;
    const late = timeout(withinMs);
    while (!isDone()) {
      const before = settled();
      const isOwnRound = this.flushing === undefined;
      this.flushNow();
      const work = Promise.all([this.flushing, ...this.underWay.values()]);
      if ((await Promise.race([work, late.promise])) === "late") break;
      // A round that moves nothing is a fault; more of them would keep the thread busy for ever.
      if (isOwnRound && settled() === before) break;
    }
    late.cancel();
    return isDone();
  }

  /** Flushes within `withinMs`, gives up what is left, and takes nothing more. */
  async close(withinMs = this.settings.exitTimeoutMs): Promise<boolean> {
    this.isClosed = true;
    const isDone = await this.flushAndLetGo(withinMs);
    this.unwatch();
    return isDone;
  }

  hasEvents(): boolean {
    return this.waiting() > 0;
  }

  flushNow(): void {
    if (this.timer !== undefined) clearTimeout(this.timer as number);
    this.timer = undefined;
    this.timerStands = false;
    // Who asks now may not be there any more when the wait would be over.
    for (const end of this.waits) end();
    if (this.flushing) return;
    const drained = this.drain().catch((error) => this.fault(error));
    this.flushing = drained.then(() => {
      this.flushing = undefined;
      // After a failure the rest waits: sending it to an unreachable server would lose all of it at once.
      if (this.queue.length > 0) this.wake(this.settings.flushIntervalMs, true);
    });
  }

  async flushAndLetGo(withinMs = this.settings.exitTimeoutMs): Promise<boolean> {
    this.isEnding = true;
    const isDone = await this.flush(withinMs);
    this.haste.abort();
    await Promise.all([this.flushing, ...this.underWay.values()]);
    const left = this.queue.length;
    while (this.queue.shift()) {}
    if (left > 0) this.ledger.drop("closed", left, "the process ended before everything was sent");
    this.haste = new AbortController();
    this.isEnding = false;
    return isDone;
  }

  lastWords(): LastWords | undefined {
    this.isClosed = true;
    if (this.settings.endpoint === undefined) return undefined;
    const bodies: string[] = [];
    // Whether the request under way arrived cannot be known; an event that arrives twice counts once.
    for (const batch of this.underWay.keys()) bodies.push(batch.body);
    for (let batch = this.pack(); batch; batch = this.pack()) bodies.push(batch.body);
    if (bodies.length === 0) return undefined;
    return { endpoint: this.settings.endpoint, headers: this.settings.headers, bodies };
  }

  flushBeforeHidden(): void {
    let room = platform.keepaliveBytes;
    for (const batch of this.underWay.keys()) room -= batch.bytes;
    const batch = this.pack(room);
    if (batch) void this.deliver(batch, true);
    // What did not fit goes as usual, should the page live on.
    this.flushNow();
  }

  private wake(ms: number, stands = ms === 0): void {
    if (this.timer !== undefined) clearTimeout(this.timer as number);
    this.timerStands = stands;
    this.timer = platform.timer(() => this.flushNow(), ms);
  }

  private async drain(): Promise<void> {
    for (let batch = this.pack(); batch; batch = this.pack()) {
      if (!(await this.deliver(batch, false))) return;
    }
  }

  /** Sends a batch and books what became of it; true when it was sent. */
  private deliver(batch: Batch, isLeaving: boolean): Promise<boolean> {
    const { signal } = this.haste;
    const sent = send(this.settings, batch.body, {
      signal,
      isLeaving,
      waits: this.waits,
      isEnding: () => this.isEnding,
      onRetry: () => this.ledger.retries++,
    });
    const booked = sent.then((outcome) => {
      this.underWay.delete(batch);
      if (outcome.sent) {
        this.ledger.sent += batch.count;
        this.ledger.accepted += outcome.accepted;
        this.ledger.rejected += outcome.rejected;
        if (outcome.reason !== undefined) this.ledger.say("rejected", `the server rejected events (${outcome.reason})`);
      } else if (signal.aborted) {
        this.ledger.drop("closed", batch.count, "the process ended before everything was sent");
      } else {
        this.ledger.drop("failed", batch.count, outcome.why);
      }
      return outcome.sent;
    });
    this.underWay.set(batch, booked);
    return booked;
  }

  /** The next request: as many events as fit into `mostBytes`. An event that fits into no request is dropped. */
  private pack(mostBytes = this.settings.batchBytes): Batch | undefined {
    const most = Math.min(mostBytes, this.settings.batchBytes);
    const parts: string[] = [];
    let bytes = OPENING.length + CLOSING.length;
    while (parts.length < this.settings.batchEvents) {
      const event = this.queue.peek();
      if (event === undefined) break;
      const text = textOf(event);
      if (text === undefined) {
        this.queue.shift();
        this.ledger.drop("failed", 1, "an event cannot be written as JSON");
        continue;
      }
      const size = platform.byteLength(text) + 1;
      if (OPENING.length + size + CLOSING.length > this.settings.batchBytes) {
        this.queue.shift();
        this.ledger.drop("too_large", 1, "an event is larger than a request may be");
        continue;
      }
      if (bytes + size > most) break;
      this.queue.shift();
      parts.push(text);
      bytes += size;
    }
    if (parts.length === 0) return undefined;
    return { body: `${OPENING}${parts.join(",")}${CLOSING}`, count: parts.length, bytes };
  }
}

/** An event as JSON, where it can be written. One that stayed in the queue would stop all behind it. */
function textOf(event: Event): string | undefined {
  try {
    return JSON.stringify(event);
  } catch {
    return undefined;
  }
}

/** The longest time a timer knows: 24 days. */
const TIMER_MOST_MS = 2 ** 31 - 1;

/**
 * A time that can be called off. In Node it keeps the process alive, as requests do not: a caller waits for this flush.
 * Elsewhere a wait without a bound takes no timer, which would hold a Worker open.
 */
function timeout(ms: number): { promise: Promise<"late">; cancel(): void } {
  if (ms === Number.POSITIVE_INFINITY && platform.staysOpen)
    return { promise: new Promise(() => {}), cancel: () => {} };
  let timer: ReturnType<typeof setTimeout>;
  const promise = new Promise<"late">((resolve) => {
    timer = setTimeout(() => resolve("late"), Math.min(Math.max(ms, 0), TIMER_MOST_MS));
  });
  return { promise, cancel: () => clearTimeout(timer) };
}
