import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { nameIn } from "../runs/run-link";
import { dayOf, itemsOf, partsOf, rateable } from "./conversation";
import { threadLink } from "./thread-link";
import type { Message } from "./use-threads";

function message(event_id: string, role: string, run_id: string, timestamp = "2026-11-21T10:00:00.000Z"): Message {
  return { event_id, role, run_id, timestamp, content: event_id, run: null, feedback: null };
}

describe("a conversation", () => {
  it("has a line before the first message of each day, and every message in order", () => {
    const messages = [
      message("a", "user", "1", "2026-11-19T12:00:00.000Z"),
      message("b", "assistant", "1", "2026-11-19T12:00:01.000Z"),
      message("c", "user", "2", "2026-11-21T12:00:00.000Z"),
    ];
    expect(itemsOf(messages).map((item) => (item.kind === "day" ? item.day : item.key))).toEqual([
      dayOf("2026-11-19T12:00:00.000Z"),
      "a",
      "b",
      dayOf("2026-11-21T12:00:00.000Z"),
      "c",
    ]);
    expect(itemsOf([])).toEqual([]);
    expect(new Set(itemsOf(messages).map((item) => item.key)).size).toBe(5);
  });

  it("is rated where the assistant spoke, else at the last message of a run", () => {
    const messages = [
      message("a", "user", "1"),
      message("b", "assistant", "1"),
      message("c", "user", "2"),
      message("d", "user", "2"),
      message("e", "assistant", "1"),
    ];
    expect([...rateable(messages)]).toEqual(["b", "d", "e"]);
  });
});

describe("what was said", () => {
  it("is split at fences of code", () => {
    expect(partsOf("Look:\n```js\nlet a = 1;\n```\nDone.")).toEqual([
      { kind: "text", text: "Look:", language: "" },
      { kind: "code", text: "let a = 1;", language: "js" },
      { kind: "text", text: "Done.", language: "" },
    ]);
    expect(partsOf("~~~\n```\n~~~")).toEqual([{ kind: "code", text: "```", language: "" }]);
    expect(partsOf("```\nnever closed")).toEqual([{ kind: "code", text: "never closed", language: "" }]);
    expect(partsOf("inline ``` marks ``` stay")).toEqual([
      { kind: "text", text: "inline ``` marks ``` stay", language: "" },
    ]);
    expect(partsOf("")).toEqual([]);
  });

  it("loses no line but the fences, whatever it is", () => {
    const line = fc.oneof(fc.string(), fc.constantFrom("```", "```js", "~~~", "````", "   ```", "a ``` b"));
    fc.assert(
      fc.property(fc.array(line, { maxLength: 30 }), (lines) => {
        const text = lines.join("\n");
        const kept = partsOf(text)
          .flatMap((part) => part.text.split("\n"))
          .filter((one) => one.trim() !== "");
        const all = text.split("\n").filter((one) => one.trim() !== "");
        let at = 0;
        for (const one of all) {
          if (kept[at] === one) at += 1;
          else expect(one).toMatch(/^ {0,3}(`{3,}|~{3,})/);
        }
        expect(at).toBe(kept.length);
      }),
    );
  });
});

describe("the address of a thread", () => {
  it("leads back to its name, whatever the name is", () => {
    fc.assert(
      fc.property(fc.string({ minLength: 1, unit: "grapheme" }), (thread_id) => {
        const address = new URL(threadLink({ thread_id, app_id: "a&b", grouped_by: "window" }), "http://x");
        // A path that is only dots is a step up, in every browser.
        fc.pre(!/^(\.|%2e){1,2}$/i.test(thread_id));
        expect(nameIn(address.pathname)).toBe(thread_id);
        expect(address.searchParams.get("app_id")).toBe("a&b");
      }),
    );
    expect(nameIn("/threads/a%2Fb%252F")).toBe("a/b%2F");
    expect(nameIn("/threads/100%")).toBe("100%");
  });
});
