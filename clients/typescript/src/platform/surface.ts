/** What the library needs from where it runs. */

/** What is current while a function runs. */
export interface ContextStore<T> {
  /** Runs `fn` with `value` as current, and what it starts too, as far as the platform can tell. */
  run<R>(value: T, fn: () => R): R;
  /** What is current, if anything is. */
  current(): T | undefined;
}

/** What still has to be sent when everything ends. */
export interface LastWords {
  endpoint: string;
  headers: Record<string, string>;
  /** JSON texts, each a whole request. */
  bodies: string[];
}

/** A client as seen by the code that notices the end. None of these throws or rejects. */
export interface Ending {
  /** Whether anything waits. */
  hasEvents(): boolean;
  /** Begins to send what waits. */
  flushNow(): void;
  /** Sends what waits, within the time for the last flush, and gives the rest up. */
  flushAndLetGo(): Promise<unknown>;
  /** Takes what waits and what is under way, for one who can no longer await anything. */
  lastWords(): LastWords | undefined;
  /** Time for the last flush, milliseconds. */
  readonly exitTimeoutMs: number;
  /** Sends what a page that is left may still send. */
  flushBeforeHidden(): void;
}

/** One request. */
export interface Post {
  endpoint: string;
  headers: Record<string, string>;
  body: string | Uint8Array;
  /** Whether it is to outlive its page. */
  keepalive: boolean;
  signal: AbortSignal;
}

/** Its answer. */
export interface Answer {
  status: number;
  retryAfter: string | null;
  /** The body, at most `ANSWER_CHARS` of it. */
  text: string;
}

/** Answers list at most a hundred reasons; more than this is no answer of Spindle's. */
export const ANSWER_CHARS = 256 * 1024;

/** Where the library runs. */
export interface Platform {
  environment(name: string): string | undefined;
  contextStore<T>(): ContextStore<T>;
  /** A UUID. */
  randomId(): string;
  /** Bytes of a text as UTF-8. */
  byteLength(text: string): number;
  /** Sends a request without keeping the process alive. Redirects are answers like others. */
  post(post: Post): Promise<Answer>;
  /** A text as gzip, where that can be made. */
  gzip(text: string): Promise<Uint8Array | undefined>;
  /** A timer that does not keep the process alive. */
  timer(fn: () => void, ms: number): unknown;
  /** Whether what is awaited goes on by itself; in Node only a timer keeps the process for it. */
  readonly staysOpen: boolean;
  /** Most bytes of a request that outlives its page, 0 where there are no pages. */
  readonly keepaliveBytes: number;
  /** Tells `ending` when everything ends; the answer takes that back. */
  watchEnd(ending: Ending): () => void;
}
