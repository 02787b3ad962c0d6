import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { spoken } from "./preview";

const messages = [
  { role: "system", content: "Be kind." },
  { role: "user", content: 'Say "hello"\nplease' },
];

describe("the line of a prompt or an answer", () => {
  it("is what the user asked last, or what was answered", () => {
    expect(spoken(JSON.stringify(messages))).toBe('Say "hello"\nplease');
    expect(spoken(JSON.stringify({ role: "assistant", content: "Hello!" }))).toBe("Hello!");
    expect(spoken(JSON.stringify({ messages }))).toBe('Say "hello"\nplease');
    expect(spoken(JSON.stringify({ choices: [{ message: { content: [{ text: "a" }, { text: "b" }] } }] }))).toBe("a b");
    expect(spoken('"plain"')).toBe("plain");
    expect(spoken("not JSON at all")).toBe("not JSON at all");
    expect(spoken('{"rows": 27}')).toBe('{"rows": 27}');
    expect(spoken(null)).toBe("");
  });

  it("is read from a preview that was cut", () => {
    expect(spoken('[{"role": "user", "content": "a long que')).toBe("a long que…");
    expect(spoken('[{"content": "line\\nbreak\\')).toBe("line\nbreak…");
    expect(spoken('[{"content": "x\\u00')).toBe("x…");
    expect(spoken('[{"role": "us')).toBe('[{"role": "us');
  });

  it("never fails, whatever it is given and wherever that is cut", () => {
    fc.assert(
      fc.property(fc.json(), fc.nat(), (text, at) => {
        expect(typeof spoken(text.slice(0, at % (text.length + 1)))).toBe("string");
      }),
    );
  });
});
