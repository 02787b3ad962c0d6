/** Where runs write their events: ids, times and copies of values, and never a failure for the application. */

import { type Event, idOf, isoTime } from "./event.js";
import { platform } from "./platform.js";
import type { Reporter } from "./reporter.js";
import type { Settings } from "./settings.js";
import { type Json, snapshot } from "./snapshot.js";

/** Characters of an event's number: the server orders events of one millisecond by id, as text. */
const NUMBER_CHARS = 9;

/** Makes events and hands them to the reporter. */
export class Journal {
  /** Every process and client has another. Made with the first event: Workers have no random numbers before a request. */
  private prefix: string | undefined;
  private number = 0;
  private readonly appId: string | undefined;
  /** Runs that have begun and not ended. */
  private open = 0;
  private readonly idlers = new Set<() => void>();
  /** Bytes that `keep` has copied since the last event. */
  private kept = 0;

  constructor(
    readonly settings: Settings,
    private readonly reporter: Reporter,
  ) {
    this.appId = idOf(settings.appId);
  }

  /** A run has begun. */
  opened(): void {
    this.open++;
  }

  /** A run has ended. */
  ended(): void {
    this.open--;
    if (this.open === 0) for (const wake of [...this.idlers]) wake();
  }

  /** Resolves when no run is open, or after a time. */
  idle(withinMs: number): Promise<void> {
    if (this.open === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        this.idlers.delete(done);
        resolve();
      };
      // A caller waits for it, so it keeps the process alive.
      const timer = setTimeout(done, withinMs);
      this.idlers.add(done);
    });
  }

  newRunId(): string {
    return platform.randomId();
  }

  /** A bounded copy of a value, to be used in the event that is being written. */
  keep(value: unknown): Json {
    if (value === undefined) return undefined;
    const { value: copy, bytes } = snapshot(value);
    this.kept += bytes;
    return copy;
  }

  /** A bounded copy of a value, for an event that is written later. Nothing where it cannot be read. */
  copy(value: unknown): Json {
    try {
      return snapshot(value).value;
    } catch (error) {
      this.reporter.fault(error);
      return undefined;
    }
  }

  /** Reports an event whose fields are made only if there is room for it. Never throws. */
  write(name: string, runId: string, fieldsOf: () => Partial<Event>): void {
    try {
      if (!this.reporter.admits()) return;
      this.kept = 0;
      const fields = fieldsOf();
      const event = fields as Event;
      event.name = name;
      event.run_id = runId;
      this.prefix ??= platform.randomId();
      event.event_id = `${this.prefix}-${(this.number++).toString(36).padStart(NUMBER_CHARS, "0")}`;
      event.timestamp = isoTime(Date.now());
      event.app_id = this.appId;
      this.reporter.report(event, this.kept);
    } catch (error) {
      this.reporter.fault(error);
    }
  }
}
