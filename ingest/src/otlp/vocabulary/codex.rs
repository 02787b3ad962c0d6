//! Codex's spans. They are spans of its Rust functions; which of them are a model call, a tool or a turn is decided by
//! [`super::super::coding_agent`], as is what its log records become.

use super::Vocabulary;

pub(super) const VOCABULARY: Vocabulary = Vocabulary {
    name: "Codex",
    source: "@openai/codex 0.169 (npm), codex-rs/otel",
    prefix: "codex.",
    // Cached tokens are included, as in the GenAI conventions, whose names the other counts have.
    total: &["codex.usage.total_tokens"],
    reasoning: &["codex.usage.reasoning_output_tokens"],
    ..Vocabulary::EMPTY
};
