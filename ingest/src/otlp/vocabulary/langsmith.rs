//! LangSmith's SDKs and LangChain with `LANGSMITH_OTEL_ENABLED`.

use super::super::usage::PartsRule;
use super::Vocabulary;

pub(super) const VOCABULARY: Vocabulary = Vocabulary {
    name: "LangSmith",
    source: "langsmith 0.4 (PyPI), its exporter for OpenTelemetry",
    prefix: "langsmith.",
    kinds: &[(
        "langsmith.span.kind",
        &[
            ("llm", "llm"),
            ("embedding", "llm"),
            ("tool", "tool"),
            ("chain", "chain"),
            ("retriever", "retriever"),
            ("prompt", "prompt"),
            ("parser", "chain"),
        ],
    )],
    user: &["langsmith.metadata.user_id", "langsmith.metadata.userId"],
    thread: &[
        "langsmith.metadata.thread_id",
        "langsmith.metadata.session_id",
        "langsmith.metadata.conversation_id",
        "langsmith.trace.session_id",
    ],
    tags: &["langsmith.span.tags"],
    model: &["langsmith.metadata.ls_model_name"],
    // LangChain's `UsageMetadata`.
    prompt_rules: &[("", PartsRule::Included)],
    usage: &[
        "langsmith.metadata.usage_metadata",
        "langsmith.usage_metadata",
    ],
    ..Vocabulary::EMPTY
};
