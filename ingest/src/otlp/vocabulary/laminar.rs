//! Laminar's SDKs, beside the GenAI conventions in the form of OpenLLMetry.

use super::Vocabulary;

pub(super) const VOCABULARY: Vocabulary = Vocabulary {
    name: "Laminar",
    source: "lmnr 0.7 (PyPI), lmnr.opentelemetry_lib.tracing.attributes",
    prefix: "lmnr.",
    kinds: &[(
        "lmnr.span.type",
        &[
            ("LLM", "llm"),
            ("TOOL", "tool"),
            ("EXECUTOR", "chain"),
            ("EVALUATOR", "evaluator"),
            ("HUMAN_EVALUATOR", "evaluator"),
            ("EVALUATION", "chain"),
        ],
    )],
    input: &["lmnr.span.input"],
    output: &["lmnr.span.output"],
    user: &["lmnr.association.properties.user_id"],
    thread: &["lmnr.association.properties.session_id"],
    tags: &["lmnr.association.properties.tags"],
    ..Vocabulary::EMPTY
};
