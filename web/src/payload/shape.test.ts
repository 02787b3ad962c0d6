import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readChat, readShape } from "./shape";

const messages = (value: unknown) => readChat(value)?.messages;

describe("a conversation", () => {
  it("is a list of messages, one message, and what stands in a request or an answer", () => {
    const said = [{ role: "user", parts: [{ kind: "text", text: "hi" }] }];
    expect(messages([{ role: "user", content: "hi" }])).toEqual(said);
    expect(messages([[{ role: "user", content: "hi" }]])).toEqual(said);
    expect(messages({ role: "user", text: "hi" })).toEqual(said);
    expect(readChat({ model: "m", messages: [{ role: "user", content: "hi" }] })).toEqual({
      messages: said,
      rest: { model: "m" },
    });
    expect(messages({ choices: [{ index: 0, message: { role: "user", content: "hi" } }] })).toEqual(said);
    expect(messages({ system: "be kind", messages: [{ role: "user", content: "hi" }] })?.[0]).toEqual({
      role: "system",
      parts: [{ kind: "text", text: "be kind" }],
    });
  });

  it("has the calls and results of OpenAI's shape", () => {
    const call = { id: "c1", type: "function", function: { name: "weather", arguments: '{"city":"Paris"}' } };
    expect(
      messages([
        { role: "assistant", content: null, tool_calls: [call] },
        { role: "tool", tool_call_id: "c1", content: '{"degrees":21}' },
      ]),
    ).toEqual([
      { role: "assistant", parts: [{ kind: "call", name: "weather", id: "c1", input: { city: "Paris" } }] },
      { role: "tool", parts: [{ kind: "result", id: "c1", output: { degrees: 21 }, isError: false }] },
    ]);
    expect(messages([{ type: "function_call", call_id: "c2", name: "f", arguments: "not json" }])).toEqual([
      { role: "assistant", parts: [{ kind: "call", name: "f", id: "c2", input: "not json" }] },
    ]);
  });

  it("has the parts of Anthropic's shape", () => {
    const content = [
      { type: "thinking", thinking: "hm" },
      { type: "text", text: "I look it up" },
      { type: "tool_use", id: "t1", name: "search", input: { q: "x" } },
    ];
    const result = { type: "tool_result", tool_use_id: "t1", is_error: true, content: [{ type: "text", text: "no" }] };
    expect(
      messages([
        { role: "assistant", content },
        { role: "user", content: [result] },
      ]),
    ).toEqual([
      {
        role: "assistant",
        parts: [
          { kind: "reasoning", text: "hm" },
          { kind: "text", text: "I look it up" },
          { kind: "call", name: "search", id: "t1", input: { q: "x" } },
        ],
      },
      { role: "user", parts: [{ kind: "result", id: "t1", output: "no", isError: true }] },
    ]);
  });

  it("has the messages of LangChain, plain and serialised", () => {
    const hi = [{ role: "user", parts: [{ kind: "text", text: "hi" }] }];
    expect(messages([{ type: "human", content: "hi" }])).toEqual(hi);
    expect(messages([{ type: "human", data: { content: "hi" } }])).toEqual(hi);
    const serialised = { lc: 1, type: "constructor", id: ["langchain", "HumanMessage"], kwargs: { content: "hi" } };
    expect(messages([[serialised]])).toEqual(hi);
    const answer = { type: "ai", content: "", tool_calls: [{ name: "f", args: { a: 1 }, id: "x" }] };
    expect(messages({ generations: [[{ text: "", message: answer }]] })).toEqual([
      { role: "assistant", parts: [{ kind: "call", name: "f", id: "x", input: { a: 1 } }] },
    ]);
  });

  it("describes media and loads none", () => {
    const parts = [
      { type: "image_url", image_url: { url: `data:image/png;base64,${"A".repeat(4096)}` } },
      { type: "image_url", image_url: { url: "https://example.com/a.png" } },
      { type: "image", source: { type: "base64", media_type: "image/jpeg", data: "AAAA" } },
      { type: "input_audio", input_audio: { format: "wav", data: "AAAA" } },
      { type: "file", file: { filename: "a.pdf" } },
    ];
    expect(messages([{ role: "user", content: parts }])?.[0]?.parts).toEqual(
      [
        "Image: image/png, 3.0 KiB of data",
        "Image: https://example.com/a.png",
        "Image: image/jpeg, 3 B of data",
        "Audio: wav, 3 B of data",
        "File: a.pdf",
      ].map((description) => ({ kind: "media", description })),
    );
  });

  it("is not what is only partly one", () => {
    expect(readChat([{ role: "user", content: "hi" }, { rows: 3 }])).toBeUndefined();
    expect(readChat([])).toBeUndefined();
    expect(readChat({ role: "admin" })).toBeUndefined();
    expect(readChat([["a"], ["b"]])).toBeUndefined();
    expect(readChat({ type: "constructor", content: "x" })).toBeUndefined();
  });
});

describe("the shape of a payload", () => {
  it("is found in JSON that was written as text", () => {
    expect(readShape('[{"role":"user","content":"hi"}]')).toMatchObject({
      views: ["chat", "json", "text"],
      isParsed: true,
    });
    expect(readShape('{"a":')).toEqual({ views: ["text"], value: '{"a":', isParsed: false });
    expect(readShape("12").views).toEqual(["text"]);
    expect(readShape({ a: 1 }).views).toEqual(["json", "text"]);
    expect(readShape(7).views).toEqual(["text"]);
  });

  it("is not taken from what cannot be a name", () => {
    const odd = JSON.parse('{"id": [{"toString": 1}], "kwargs": {}}');
    expect(readShape(odd).views).toEqual(["json", "text"]);
  });

  it("is found in anything at all without a fault", () => {
    const words = fc.constantFrom(
      "role",
      "content",
      "type",
      "text",
      "messages",
      "choices",
      "tool_calls",
      "id",
      "kwargs",
    );
    const values = fc.constantFrom("user", "ai", "human", "tool_use", "tool_result", "image", "text", "constructor");
    const { tree } = fc.letrec((tie) => ({
      tree: fc.oneof(
        { maxDepth: 5 },
        values,
        fc.constantFrom(null, 1, true, "", "[{"),
        fc.array(tie("tree"), { maxLength: 4 }),
        fc.dictionary(words, tie("tree"), { maxKeys: 5 }),
      ),
    }));
    fc.assert(
      fc.property(fc.oneof(tree, fc.jsonValue()), (value) => {
        const shape = readShape(value);
        expect(shape.views.at(-1)).toBe("text");
        for (const message of shape.chat?.messages ?? []) expect(typeof message.role).toBe("string");
      }),
      { numRuns: 1000 },
    );
  });
});
