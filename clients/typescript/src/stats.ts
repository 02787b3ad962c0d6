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

/** No news more often than this, milliseconds. */
const WARNING_INTERVAL_MS = 60_000;

/** Counts, and says at most once a minute that something was lost. */
export class Ledger {
  queued = 0;
  sent = 0;
  accepted = 0;
  rejected = 0;
  retries = 0;
  readonly dropped: Record<DropReason, number> = { queue_full: 0, too_large: 0, failed: 0, closed: 0 };
  private warnedAt = Number.NEGATIVE_INFINITY;

  constructor(private readonly warn: (message: string) => void) {}

  /** Counts losses. `why` names no address, no key and no content. */
  drop(reason: DropReason, count: number, why?: string): void {
    this.dropped[reason] += count;
    this.say(why ?? reason);
  }

  /** A warning, unless there was one less than a minute ago. Clocks may be set back. */
  say(why: string): void {
    const now = Date.now();
    if (Math.abs(now - this.warnedAt) < WARNING_INTERVAL_MS) return;
    this.warnedAt = now;
    const { queue_full, too_large, failed, closed } = this.dropped;
    const numbers = `queue_full ${queue_full}, too_large ${too_large}, failed ${failed}, closed ${closed}`;
    try {
      this.warn(`spindle: ${why}; events dropped so far: ${numbers}; refused by the server: ${this.rejected}`);
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
