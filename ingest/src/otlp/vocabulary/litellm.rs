//! LiteLLM's callback `otel`, beside the GenAI conventions.

use super::super::usage::PartsRule;
use super::Vocabulary;

pub(super) const VOCABULARY: Vocabulary = Vocabulary {
    name: "LiteLLM",
    source: "litellm 1.80 (PyPI), litellm.integrations.opentelemetry",
    prefix: "metadata.",
    user: &[
        "metadata.user_api_key_end_user_id",
        "metadata.user_api_key_user_email",
    ],
    // In OpenAI's shape for every provider.
    prompt_rules: &[("", PartsRule::Included)],
    // Parts of the counts are only here.
    usage: &["metadata.usage_object"],
    cost: &["hidden_params", "metadata.response_cost"],
    ..Vocabulary::EMPTY
};
