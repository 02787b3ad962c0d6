/** A thread as a list to scroll: its messages in order, and a line where another day begins. Pure. */

import type { Message } from "./use-threads";

/** A line of the list. */
export type Item =
  | { kind: "day"; key: string; iso: string; day: string }
  | { kind: "message"; key: string; message: Message; isRateable: boolean; place: number };

/** The day of a time in the reader's zone, such as `2026-11-21`. */
export function dayOf(iso: string): string {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return iso.slice(0, 10);
  const two = (part: number) => String(part).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

/**
 * Messages that feedback belongs to: what the assistant said, and where it said nothing for a run, the last message of
 * it. The server shows feedback in the same places.
 */
export function rateable(messages: readonly Message[]): Set<string> {
  const answered = new Set(messages.filter((one) => one.role === "assistant").map((one) => one.run_id));
  const last = new Map(messages.map((one) => [one.run_id, one.event_id]));
  return new Set(
    messages
      .filter((one) => one.role === "assistant" || (!answered.has(one.run_id) && last.get(one.run_id) === one.event_id))
      .map((one) => one.event_id),
  );
}

/** The list. */
export function itemsOf(messages: readonly Message[]): Item[] {
  const rated = rateable(messages);
  const items: Item[] = [];
  let today = "";
  messages.forEach((message, index) => {
    const day = dayOf(message.timestamp);
    if (day !== today) {
      // A day may come twice: the reader's clock may be set back between two messages.
      items.push({ kind: "day", key: `day ${index} ${day}`, iso: message.timestamp, day });
      today = day;
    }
    items.push({
      kind: "message",
      key: message.event_id,
      message,
      isRateable: rated.has(message.event_id),
      place: index + 1,
    });
  });
  return items;
}

/** A part of what was said. */
export type Part = { kind: "text" | "code"; text: string; language: string };

const FENCE = /^ {0,3}(`{3,}|~{3,})([^`\n]*)$/;

/**
 * Splits a text at its fences of code, which stay text: nothing is rendered from it. Parts joined with line ends are the
 * lines of the text but for the fences. A fence that is never closed goes on to the end.
 */
export function partsOf(text: string): Part[] {
  const parts: Part[] = [];
  let lines: string[] = [];
  let fence: string | undefined;
  let language = "";
  const end = () => {
    const joined = lines.join("\n");
    lines = [];
    const isCode = fence !== undefined;
    if (isCode || joined.trim() !== "") parts.push({ kind: isCode ? "code" : "text", text: joined, language });
  };
  for (const line of text.split("\n")) {
    const found = FENCE.exec(line.replace(/\r$/, ""));
    const mark = found?.[1];
    if (fence === undefined && mark) {
      end();
      fence = mark;
      language = (found?.[2] ?? "").trim().slice(0, 40);
    } else if (fence !== undefined && mark?.startsWith(fence) && found?.[2]?.trim() === "") {
      end();
      fence = undefined;
      language = "";
    } else lines.push(line);
  }
  end();
  return parts;
}
