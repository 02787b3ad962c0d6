/** Embeddings: the texts and what they cost; of the vectors only how many and how long. */

import { Pieces } from "../stream.js";
import { countOf, fieldsOf, pick, textOf } from "./fields.js";
import type { Method } from "./observe.js";

/** `embeddings.create`. */
export const embeddingMethod: Method = {
  begin: (parameters) => ({
    name: "openai.embeddings",
    model: textOf(parameters.model),
    input: parameters.input,
    metadata: pick(parameters, ["dimensions", "encoding_format"]),
  }),
  shape: () => ({
    finish(run, value) {
      const answer = fieldsOf(value);
      const vectors = Array.isArray(answer.data) ? answer.data : [];
      const first = fieldsOf(vectors[0]).embedding;
      const usage = fieldsOf(answer.usage);
      run.end(
        { vectors: vectors.length, dimensions: Array.isArray(first) ? first.length : undefined },
        {
          model: textOf(answer.model),
          promptTokens: countOf(usage.prompt_tokens),
          // There is no completion; without its count the call would have no price.
          completionTokens: countOf(usage.prompt_tokens) === undefined ? undefined : 0,
          totalTokens: countOf(usage.total_tokens),
        },
      );
    },
    collector: (run) => new Pieces(run.capturesOutput),
  }),
};
