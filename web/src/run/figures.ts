/** Figures of a run in words. Pure. */

import type { Shapes } from "../api/client";
import { count, dollars } from "../format";

/** Why a cost is what it is, where that needs saying. */
const COST_REASONS: Record<string, string> = {
  provided: "given by the client",
  no_model: "no model is known",
  no_tokens: "no tokens are known",
  unpriced_model: "the model has no price",
  counted_elsewhere: "another run counts the call",
};

/** The own cost, or why there is none. */
export function costSaid(run: Pick<Shapes["Run"], "cost" | "cost_status"> & { cost_estimated?: boolean }): string {
  if (run.cost_status === "not_llm") return "not a model call";
  const reason = run.cost_estimated ? "estimated" : COST_REASONS[run.cost_status];
  return reason ? `${dollars(run.cost)}, ${reason}` : dollars(run.cost);
}

type Tokens = Partial<
  Pick<
    Shapes["RunDetail"],
    "prompt_tokens" | "completion_tokens" | "total_tokens" | "cached_tokens" | "reasoning_tokens"
  >
>;

/** Its own tokens in words; nothing where none are known. */
export function tokensSaid(run: Tokens): string | undefined {
  const { prompt_tokens, completion_tokens, total_tokens, cached_tokens, reasoning_tokens } = run;
  const parts = [
    prompt_tokens == null
      ? undefined
      : `${count(prompt_tokens)} prompt${cached_tokens ? ` (${count(cached_tokens)} cached)` : ""}`,
    completion_tokens == null
      ? undefined
      : `${count(completion_tokens)} completion${reasoning_tokens ? ` (${count(reasoning_tokens)} reasoning)` : ""}`,
  ].filter((part) => part !== undefined);
  if (parts.length > 0) return parts.join(" + ");
  return total_tokens == null ? undefined : `${count(total_tokens)}`;
}
