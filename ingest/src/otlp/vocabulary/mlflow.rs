//! MLflow's tracing, exported over OTLP; its values are JSON in texts.

use super::Vocabulary;

pub(super) const VOCABULARY: Vocabulary = Vocabulary {
    name: "MLflow",
    source: "mlflow 3 (PyPI), mlflow.tracing.constant",
    prefix: "mlflow.",
    kinds: &[(
        "mlflow.spanType",
        &[
            ("LLM", "llm"),
            ("CHAT_MODEL", "llm"),
            ("EMBEDDING", "llm"),
            ("TOOL", "tool"),
            ("AGENT", "agent"),
            ("CHAIN", "chain"),
            ("WORKFLOW", "chain"),
            ("TASK", "chain"),
            ("PARSER", "chain"),
            ("RETRIEVER", "retriever"),
            ("RERANKER", "reranker"),
            ("GUARDRAIL", "guardrail"),
            ("EVALUATOR", "evaluator"),
        ],
    )],
    input: &["mlflow.spanInputs"],
    output: &["mlflow.spanOutputs"],
    user: &["mlflow.trace.user", "mlflow.user"],
    thread: &["mlflow.trace.session"],
    model: &["mlflow.llm.model"],
    usage: &["mlflow.chat.tokenUsage"],
    ..Vocabulary::EMPTY
};
