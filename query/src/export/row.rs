//! A row of an export, and its columns for tabular formats.

use schemas::money::Dollars;
use schemas::run::{Instant, Run, Seconds};
use serde::Serialize;
use serde_json::value::RawValue;

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// The fields of the list.
    #[serde(flatten)]
    pub(crate) run: Run,
    /// Fields that are stored in the events only, in exports of the dataset.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(crate) whole: Option<Whole>,
}

/// Fields of a run that are stored in its events only.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Whole {
    pub(crate) input: Option<Box<RawValue>>,
    pub(crate) output: Option<Box<RawValue>>,
    /// An object.
    pub(crate) metadata: Box<RawValue>,
    /// Whether the run has too many events, so that these fields come from a part of them.
    pub(crate) events_truncated: bool,
}

/// Selects the columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) names_project: bool,
    pub(crate) is_whole: bool,
}

impl Shape {
    /// In order.
    pub(crate) fn columns(self) -> Vec<Column> {
        let mut columns = Vec::new();
        if self.names_project {
            columns.push(PROJECT);
        }
        columns.extend(COLUMNS);
        if self.is_whole {
            columns.extend(WHOLE);
        }
        columns
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) value: Value,
}

/// Reads a value of a type. `Text` and `Time` are never missing.
#[derive(Clone, Copy)]
pub(crate) enum Value {
    Text(fn(&Row) -> &str),
    MaybeText(fn(&Row) -> Option<&str>),
    Texts(fn(&Row) -> &[String]),
    Count(fn(&Row) -> Option<u64>),
    Money(fn(&Row) -> Dollars),
    Time(fn(&Row) -> Instant),
    MaybeTime(fn(&Row) -> Option<Instant>),
    Length(fn(&Row) -> Option<Seconds>),
    Number(fn(&Row) -> Option<f64>),
    Flag(fn(&Row) -> bool),
}

const fn column(name: &'static str, value: Value) -> Column {
    Column { name, value }
}

const PROJECT: Column = column(
    "project_id",
    Value::MaybeText(|row| row.run.project_id.as_deref()),
);

/// The fields of the list, with flattened error and feedback.
const COLUMNS: [Column; 36] = [
    column("run_id", Value::Text(|row| &row.run.run_id)),
    column("app_id", Value::Text(|row| &row.run.app_id)),
    column(
        "parent_run_id",
        Value::MaybeText(|row| row.run.parent_run_id.as_deref()),
    ),
    column("root_run_id", Value::Text(|row| &row.run.root_run_id)),
    column("name", Value::MaybeText(|row| row.run.name.as_deref())),
    column("type", Value::MaybeText(|row| row.run.kind.as_deref())),
    column("status", Value::Text(|row| row.run.status.as_str())),
    column("stale", Value::Flag(|row| row.run.stale)),
    column("agent", Value::MaybeText(|row| row.run.agent.as_deref())),
    column("model", Value::MaybeText(|row| row.run.model.as_deref())),
    column(
        "user_email",
        Value::MaybeText(|row| row.run.user_email.as_deref()),
    ),
    column("tags", Value::Texts(|row| &row.run.tags)),
    column(
        "thread_id",
        Value::MaybeText(|row| row.run.thread_id.as_deref()),
    ),
    column("started_at", Value::Time(|row| row.run.started_at)),
    column("ended_at", Value::MaybeTime(|row| row.run.ended_at)),
    column("latency_s", Value::Length(|row| row.run.latency_s)),
    column("prompt_tokens", Value::Count(|row| row.run.prompt_tokens)),
    column(
        "completion_tokens",
        Value::Count(|row| row.run.completion_tokens),
    ),
    column("total_tokens", Value::Count(|row| row.run.total_tokens)),
    column("ttft_ms", Value::Count(|row| row.run.ttft_ms)),
    column(
        "tokens_per_second",
        Value::Number(|row| row.run.tokens_per_second),
    ),
    column("cost", Value::Money(|row| row.run.cost)),
    column(
        "cost_status",
        Value::Text(|row| row.run.cost_status.as_str()),
    ),
    column(
        "counted_run_id",
        Value::MaybeText(|row| row.run.counted_run_id.as_deref()),
    ),
    column("total_cost", Value::Money(|row| row.run.total_cost)),
    column(
        "total_tokens_with_children",
        Value::Count(|row| Some(row.run.total_tokens_with_children)),
    ),
    column("llm_calls", Value::Count(|row| Some(row.run.llm_calls))),
    column("error_count", Value::Count(|row| Some(row.run.error_count))),
    column(
        "error_name",
        Value::MaybeText(|row| row.run.error.as_ref()?.name.as_deref()),
    ),
    column(
        "error_message",
        Value::MaybeText(|row| row.run.error.as_ref().map(|error| error.message.as_str())),
    ),
    column("saved", Value::Flag(|row| row.run.saved)),
    column(
        "feedback_rating",
        Value::MaybeText(|row| row.run.feedback.as_ref()?.rating.as_deref()),
    ),
    column(
        "feedback_comment",
        Value::MaybeText(|row| row.run.feedback.as_ref()?.comment.as_deref()),
    ),
    column(
        "feedback_at",
        Value::MaybeTime(|row| row.run.feedback.as_ref()?.at),
    ),
    column(
        "input_preview",
        Value::MaybeText(|row| row.run.input_preview.as_deref()),
    ),
    column(
        "output_preview",
        Value::MaybeText(|row| row.run.output_preview.as_deref()),
    ),
];

/// JSON as text.
const WHOLE: [Column; 4] = [
    column(
        "input",
        Value::MaybeText(|row| json(row.whole.as_ref()?.input.as_deref())),
    ),
    column(
        "output",
        Value::MaybeText(|row| json(row.whole.as_ref()?.output.as_deref())),
    ),
    column(
        "metadata",
        Value::MaybeText(|row| json(Some(&row.whole.as_ref()?.metadata))),
    ),
    column(
        "events_truncated",
        Value::Flag(|row| {
            row.whole
                .as_ref()
                .is_some_and(|whole| whole.events_truncated)
        }),
    ),
];

fn json(value: Option<&RawValue>) -> Option<&str> {
    value.map(RawValue::get)
}
