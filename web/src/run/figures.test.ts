import { describe, expect, it } from "vitest";
import type { Shapes } from "../api/client";
import { costSaid, pricesSaid, speedSaid, tokensSaid, tokensShort } from "./figures";

const usage: Shapes["UsageByKind"] = {
  input: 20,
  cache_read: 8000,
  cache_write: 900,
  cache_write_1h: 0,
  input_audio: 0,
  input_image: 0,
  output: 11,
  reasoning: 0,
  output_audio: 0,
  requests: 0,
};

describe("tokens", () => {
  it("are a few characters where there is little room", () => {
    expect(tokensShort({ prompt_tokens: 5054, completion_tokens: 1036, cached_tokens: 653 })).toBe(
      "5,054→1,036 (653 cached)",
    );
    expect(tokensShort({ prompt_tokens: 5054, completion_tokens: null })).toBe("5,054→?");
    expect(tokensShort({ total_tokens: 7 })).toBe("7 tokens");
    expect(tokensShort({})).toBeUndefined();
  });

  it("name each kind that a call has", () => {
    expect(tokensSaid({ prompt_tokens: 8920, completion_tokens: 11, usage })).toBe(
      "8,920 prompt (8,000 cached, 900 cache written) + 11 completion",
    );
  });

  it("have the parts that a list knows", () => {
    expect(tokensSaid({ prompt_tokens: 9, completion_tokens: 75, cached_tokens: 4, reasoning_tokens: 64 })).toBe(
      "9 prompt (4 cached) + 75 completion (64 reasoning)",
    );
    expect(tokensSaid({ total_tokens: 7 })).toBe("7");
    expect(tokensSaid({})).toBeUndefined();
  });
});

describe("a cost", () => {
  it("names the kinds that have no price", () => {
    const cost = { cost: 0.5, cost_status: "partly_priced", unpriced_kinds: ["cache_write", "input_audio"] };
    expect(costSaid(cost)).toBe("$0.5000, no price for cache written, audio");
    expect(costSaid({ ...cost, unpriced_kinds: [] })).toBe("$0.5000, a kind of its usage has no price");
  });
});

describe("the speed of a model", () => {
  it("is shown where the first token's time is known", () => {
    expect(speedSaid({ ttft_ms: 321, tokens_per_second: 54.4 })).toBe("first token after 321 ms, 54 tokens/s");
    expect(speedSaid({ ttft_ms: null, tokens_per_second: 54.4 })).toBeUndefined();
  });
});

describe("the price that was used", () => {
  it("is named where it is another name than the model's", () => {
    const call = (model: string, price: Shapes["RunCall"]["price"]) => ({ model, price }) as Shapes["RunCall"];
    const row = (model: string, prefix = false) => ({ model, prefix, effective_from: null });
    expect(pricesSaid({ model: "m", calls: [call("m", row("m")), call("m", null)] })).toBeUndefined();
    expect(
      pricesSaid({
        model: "x/m",
        calls: [call("x/m", row("m")), call("m-2026", row("m-20", true)), call("x/m", row("m"))],
      }),
    ).toBe("m, m-20…");
  });
});
