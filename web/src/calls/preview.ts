/** The beginning of a prompt or an answer in one line, from a preview that may be cut anywhere. Pure. */

/** A text inside a content: plain, or the parts of one. */
function contentOf(content: unknown): string | undefined {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return undefined;
  const texts = content
    .map((part) => (typeof part === "string" ? part : part?.text))
    .filter((text) => typeof text === "string");
  return texts.length > 0 ? texts.join(" ") : undefined;
}

/** What a message, a list of messages or an answer says, where it is one. */
function saidIn(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  if (Array.isArray(value)) {
    // What the user asked last says more than the instructions before it.
    const asked = value.findLast((one) => one?.role === "user" || one?.role === "human") ?? value.at(-1);
    return saidIn(asked);
  }
  if (typeof value !== "object" || value === null) return undefined;
  const fields = value as Record<string, unknown>;
  for (const name of ["content", "text", "message", "prompt", "messages", "choices", "output", "answer"]) {
    if (!(name in fields)) continue;
    const said = name === "content" ? contentOf(fields[name]) : saidIn(fields[name]);
    if (said) return said;
  }
  return undefined;
}

/** `"content": "..."`, the end of which may be missing. */
const CONTENT = /"(?:content|text)"\s*:\s*"((?:[^"\\]|\\.)*)/g;

/** What it says; the preview itself where that is no conversation. */
export function spoken(preview: string | null | undefined): string {
  if (!preview) return "";
  try {
    return saidIn(JSON.parse(preview)) ?? preview;
  } catch {
    const last = [...preview.matchAll(CONTENT)].at(-1)?.[1];
    if (!last) return preview;
    try {
      // Cut inside an escape: what is before it can be read.
      return `${JSON.parse(`"${last.replace(/\\(?:u[0-9a-fA-F]{0,3})?$/, "")}"`)}…`;
    } catch {
      return preview;
    }
  }
}
