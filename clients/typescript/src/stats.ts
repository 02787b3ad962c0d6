/** What became of every event, in numbers the application can read, and the warnings about losses. */

/** Why an event was not delivered. */
export type DropReason = "queue_full" | "too_large" | "failed" | "closed";

/**
 * Counters since the client was made, and how much waits now.
 *
 * Every event that was made is in exactly one place: `made = sent + waiting + dropped`, all reasons together.
 */
export interface Stats {
  /** Events that found a place in the queue. */
  queued: number;
  /** Events in the queue or in a request that is not answered yet. */
  waiting: number;
  /** Events of requests that Spindle answered with success. */
  sent: number;
  /** Of those, what the server said it took. */
  accepted: number;
  /** Of those, what the server said it refused, each for a reason of its own. */
  rejected: number;
  /** Events that were lost, by reason. */
  dropped: Record<DropReason, number>;
  /** Requests that were tried again. */
  retries: number;
}

/** No news of one kind more often than this, milliseconds. */
const WARNING_INTERVAL_MS = 60_000;

/** What a warning is about: a reason why events are lost, or something else. */
export type Trouble = DropReason | "rejected" | "fault" | "use";

/** Counts, and says each kind of trouble at once and then at most once a minute. */
export class Ledger {
  queued = 0;
  sent = 0;
  accepted = 0;
  rejected = 0;
  retries = 0;
  readonly dropped: Record<DropReason, number> = { queue_full: 0, too_large: 0, failed: 0, closed: 0 };
  private readonly warnedAt = new Map<Trouble, number>();

  constructor(private readonly warn: (message: string) => void) {}

  /** Counts losses. `why` names no address, no key and no content. */
  drop(reason: DropReason, count: number, why?: string): void {
    this.dropped[reason] += count;
    this.say(reason, why ?? reason);
  }

  /** A warning, unless there was one of its kind less than a minute ago. Clocks may be set back. */
  say(kind: Trouble, why: string): void {
    const now = Date.now();
    if (Math.abs(now - (this.warnedAt.get(kind) ?? Number.NEGATIVE_INFINITY)) < WARNING_INTERVAL_MS) return;
    this.warnedAt.set(kind, now);
    const { queue_full, too_large, failed, closed } = this.dropped;
    const numbers = `queue_full ${queue_full}, too_large ${too_large}, failed ${failed}, closed ${closed}`;
    try {
      this.warn(`spindle: ${why}; events dropped so far: ${numbers}; rejected by the server: ${this.rejected}`);
    } catch {
      // A logger that fails is none of the application's troubles.
    }
  }

  /** A copy for the application. */
  stats(waiting: number): Stats {
    const { queued, sent, accepted, rejected, retries } = this;
    return { queued, waiting, sent, accepted, rejected, dropped: { ...this.dropped }, retries };
  }
}
