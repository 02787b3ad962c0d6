/**
 * Commands that a reader pastes into a shell. Pure. A payload is hostile: nothing of it may be anything but text to the
 * shell, nor to the terminal it is pasted into. The key is never in them, only the name of the variable it is in.
 */

import type { Shapes } from "../api/client";
import { writeExact } from "../payload/exact-json";

type RunDetail = Shapes["RunDetail"];
const KEY = '--header "Authorization: Bearer $SPINDLE_API_KEY"';
/** Ends the text given to a command; the text is one line that begins with a brace, so never this one. */
const END = "SPINDLE_EVENTS";

/** A text as one word of a POSIX shell. A NUL, which no word can have, is left out. */
export function shellWord(text: string): string {
  return `'${text.replaceAll("\0", "").replaceAll("'", "'\\''")}'`;
}

/**
 * JSON in one line of printable ASCII. A terminal acts on control characters that are pasted, and an interactive shell
 * on `!`, so these are written as escapes too.
 */
export function plainJson(value: unknown): string {
  const escaped = (char: string) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
  // Outside of strings JSON has none of them.
  return writeExact(value).replace(/[^\x20-\x7e]|!/g, escaped);
}

/** Reads this run. */
export function readCommand(origin: string, run: { run_id: string; app_id: string; project_id?: string | undefined }) {
  const query = new URLSearchParams({ app_id: run.app_id });
  if (run.project_id) query.set("project_id", run.project_id);
  const address = `${origin}/api/run/${encodeURIComponent(run.run_id)}?${query}`;
  return `curl --silent --show-error --fail-with-body ${KEY} \\\n  ${shellWord(address)}\n`;
}

/** Reports events. */
export function reportCommand(origin: string, events: Record<string, unknown>[]) {
  return [
    `curl --silent --show-error --fail-with-body ${KEY} \\`,
    `  --header 'Content-Type: application/json' --data-binary @- ${shellWord(`${origin}/api/report`)} <<'${END}'`,
    plainJson({ events }),
    END,
    "",
  ].join("\n");
}

/** Events that make a run like this one, under another id. What the server counts by itself is not among them. */
export function eventsOf(run: RunDetail, runId: string): Record<string, unknown>[] {
  const name = run.name ?? "run";
  const base = { run_id: runId, app_id: run.app_id };
  const start = present({
    ...run.fields,
    ...base,
    name: `${name}_start`,
    type: run.type,
    timestamp: run.started_at,
    parent_run_id: run.parent_run_id,
    thread_id: run.thread_id,
    agent: run.agent,
    user_email: run.user_email,
    model: run.model,
    tags: run.tags.length > 0 ? run.tags : undefined,
    metadata: Object.keys(run.metadata).length > 0 ? run.metadata : undefined,
    input: run.input,
  });
  if (run.ended_at == null) return [start];
  const end = present({
    ...base,
    name: run.status === "error" ? `${name}_error` : `${name}_end`,
    timestamp: run.ended_at,
    output: run.output,
    error: run.error,
    prompt_tokens: run.prompt_tokens,
    completion_tokens: run.completion_tokens,
    total_tokens: run.total_tokens,
    cached_tokens: run.cached_tokens,
    reasoning_tokens: run.reasoning_tokens,
    cost: run.cost_status === "provided" ? run.cost : undefined,
  });
  return [start, end];
}

function present(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== null));
}
