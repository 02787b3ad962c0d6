//! MLflow's tracing, exported over OTLP; its values are JSON in texts.

use super::super::usage::PartsRule;
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
    // `mlflow.message.format` names the provider; mlflow.anthropic and mlflow.bedrock pass their counts on.
    prompt_rules: &[
        ("anthropic", PartsRule::Beside),
        ("bedrock", PartsRule::Beside),
        ("", PartsRule::Included),
    ],
    usage: &["mlflow.chat.tokenUsage"],
    cost: &["mlflow.llm.cost"],
    ..Vocabulary::EMPTY
};
