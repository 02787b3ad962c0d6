/** Figures of a run in words. Pure. */

import type { Shapes } from "../api/client";
import { count, dollars, duration } from "../format";

/** Why a cost is what it is, where that needs saying. */
const COST_REASONS: Record<string, string> = {
  provided: "given by the client",
  no_model: "no model is known",
  no_tokens: "no tokens are known",
  unpriced_model: "the model has no price",
  partly_priced: "a kind of its usage has no price",
  counted_elsewhere: "another run counts the call",
};

/** Kinds of usage, as they are read: by their names on the API. */
const KINDS: Record<string, string> = {
  input: "uncached",
  cache_read: "cached",
  cache_write: "cache written",
  cache_write_1h: "cache written for 1 h",
  input_audio: "audio",
  input_image: "images",
  output: "text",
  reasoning: "reasoning",
  output_audio: "audio",
  request: "requests",
  service_tier: "service tier",
};

type Cost = Pick<Shapes["Run"], "cost" | "cost_status"> & { cost_estimated?: boolean; unpriced_kinds?: string[] };

/** The own cost, or why there is none. */
export function costSaid(run: Cost): string {
  if (run.cost_status === "not_llm") return "not a model call";
  const reason = run.cost_estimated ? "estimated" : costReason(run);
  return reason ? `${dollars(run.cost)}, ${reason}` : dollars(run.cost);
}

function costReason({ cost_status, unpriced_kinds }: Cost): string | undefined {
  if (cost_status === "partly_priced" && unpriced_kinds?.length) {
    return `no price for ${unpriced_kinds.map((kind) => KINDS[kind] ?? kind).join(", ")}`;
  }
  return COST_REASONS[cost_status];
}

type Tokens = Partial<
  Pick<
    Shapes["RunDetail"],
    "prompt_tokens" | "completion_tokens" | "total_tokens" | "cached_tokens" | "reasoning_tokens" | "usage"
  >
>;

/** Its own tokens in words; nothing where none are known. */
export function tokensSaid(run: Tokens): string | undefined {
  const { prompt_tokens, completion_tokens, total_tokens, cached_tokens, reasoning_tokens } = run;
  const usage: Partial<Shapes["UsageByKind"]> = run.usage ?? {
    cache_read: cached_tokens ?? 0,
    reasoning: reasoning_tokens ?? 0,
  };
  const parts = [
    prompt_tokens == null
      ? undefined
      : `${count(prompt_tokens)} prompt${partsSaid(usage, ["cache_read", "cache_write", "cache_write_1h", "input_audio", "input_image"])}`,
    completion_tokens == null
      ? undefined
      : `${count(completion_tokens)} completion${partsSaid(usage, ["reasoning", "output_audio"])}`,
    usage.requests ? `${count(usage.requests)} requests` : undefined,
  ].filter((part) => part !== undefined);
  if (parts.length > 0) return parts.join(" + ");
  return total_tokens == null ? undefined : `${count(total_tokens)}`;
}

/** Its own tokens in a few characters, `5,054→1,036 (653 cached)`; nothing where none are known. */
export function tokensShort(run: Tokens): string | undefined {
  const { prompt_tokens, completion_tokens, total_tokens, cached_tokens } = run;
  if (prompt_tokens == null && completion_tokens == null) {
    return total_tokens == null ? undefined : `${count(total_tokens)} tokens`;
  }
  const number = (tokens: number | null | undefined) => (tokens == null ? "?" : count(tokens));
  const cached = cached_tokens ? ` (${count(cached_tokens)} cached)` : "";
  return `${number(prompt_tokens)}→${number(completion_tokens)}${cached}`;
}

function partsSaid(usage: Partial<Shapes["UsageByKind"]>, kinds: (keyof Shapes["UsageByKind"])[]): string {
  const said = kinds.filter((kind) => usage[kind]).map((kind) => `${count(usage[kind])} ${KINDS[kind]}`);
  return said.length > 0 ? ` (${said.join(", ")})` : "";
}

/** How soon and how fast a model answered; nothing where the first token's time is not known. */
export function speedSaid(run: Partial<Pick<Shapes["Run"], "ttft_ms" | "tokens_per_second">>): string | undefined {
  if (run.ttft_ms == null) return undefined;
  const first = `first token after ${duration(run.ttft_ms / 1000)}`;
  return run.tokens_per_second == null ? first : `${first}, ${count(Math.round(run.tokens_per_second))} tokens/s`;
}

/** The rows of the price table that its calls are priced by, where a row's name is not just the model's. */
export function pricesSaid(run: Pick<Shapes["RunDetail"], "calls" | "model">): string | undefined {
  const rows = run.calls.flatMap(({ model, price }) => {
    if (!price || (price.model === model && !price.prefix)) return [];
    return [price.prefix ? `${price.model}…` : price.model];
  });
  return rows.length > 0 ? [...new Set(rows)].slice(0, 4).join(", ") : undefined;
}
