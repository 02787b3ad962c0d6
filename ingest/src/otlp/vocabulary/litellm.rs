//! LiteLLM's callback `otel`, beside the GenAI conventions.

use super::Vocabulary;

pub(super) const VOCABULARY: Vocabulary = Vocabulary {
    name: "LiteLLM",
    source: "litellm 1.80 (PyPI), litellm.integrations.opentelemetry",
    prefix: "metadata.",
    user: &[
        "metadata.user_api_key_end_user_id",
        "metadata.user_api_key_user_email",
    ],
    // Cached tokens are only here.
    usage: &["metadata.usage_object"],
    ..Vocabulary::EMPTY
};
