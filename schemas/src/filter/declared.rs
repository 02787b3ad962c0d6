//! The filters of runs: one declaration each.
//!
//! Everything else follows from [`FILTERS`]: the fields of [`RunFilter`], parsing and validation of parameters, the
//! fingerprint of cursors, the SQL condition in the store, the parameters of the OpenAPI document, and the fields of
//! the web UI. So a filter is added only here.

use super::kinds::{
    Bound, Choice, Count, Entries, Flag, Kind, Number, Shape, Tags, Text, Time, Unit, Value,
};
use super::{FILTER_TEXT_CHARS, FeedbackFilter};
use crate::api_error::ApiError;
use crate::fold::RunStatus;
use crate::limits::{ID_BYTES, NAME_BYTES};

/// The condition of a filter on a run. Columns belong to the table `runs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The column has the given text or word.
    Equals(&'static str),
    /// The run has the given type. `llm` also finds runs of other types that report model calls of their own.
    IsType,
    /// The column is 1 (`true`) or 0 (`false`).
    IsTrue(&'static str),
    /// The text column is empty (`true`) or not (`false`).
    IsEmpty(&'static str),
    /// The text column is not empty (`true`) or is (`false`).
    IsSet(&'static str),
    /// The measure is present and not smaller.
    AtLeast(Measure),
    /// The measure is present and not larger.
    AtMost(Measure),
    /// The array has one of the given texts.
    HasAny(&'static str),
    /// The array has all of the given texts.
    HasAll(&'static str),
    /// The map has all of the given values.
    HasEntries(&'static str),
    /// The rating in the column equals the given one, is present (`any`), or is absent (`none`).
    Rating(&'static str),
    /// The run has (not) been `started` for more than [`super::STALE_AFTER_MS`].
    Stale,
    /// The text is in one of the searched columns, in any case.
    Contains,
}

/// A quantity of a run with lower and upper bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// From start to end, seconds; none for an unfinished run.
    Latency,
    /// Cost including descendants, dollars.
    Cost,
    /// Tokens including descendants.
    Tokens,
    /// From the request of a model call to its first token, milliseconds; none where it is not known.
    TimeToFirstToken,
    /// Start, Unix milliseconds.
    Start,
}

/// The declaration of one filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Declaration {
    /// Name of the query parameter. Entries of a map are `<name>.<key>`.
    pub name: &'static str,
    /// Title of its field in the web UI.
    pub label: &'static str,
    /// Description in the OpenAPI document.
    pub description: &'static str,
    pub shape: Shape,
    pub condition: Condition,
}

macro_rules! run_filters {
    ($($field:ident: $kind:ty = $name:literal, $label:literal, $value:expr, $condition:expr, $description:literal;)+) => {
        /// The given filters; a run must satisfy all of them. An absent bound, flag or text is `None`, an absent list
        /// is empty.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct RunFilter {
            $(#[doc = $description] pub $field: <$kind as Kind>::Held,)+
        }

        /// All filters, in the order of the OpenAPI document.
        pub static FILTERS: &[Declaration] = &[
            $(Declaration {
                name: $name,
                label: $label,
                description: $description,
                shape: <$kind>::shape(&$value),
                condition: $condition,
            },)+
        ];

        impl RunFilter {
            /// Parses one parameter; `None` when no filter has this name.
            pub(super) fn read(&mut self, name: &str, value: &str) -> Option<Result<(), ApiError>> {
                $(if <$kind as Kind>::takes($name, name) {
                    return Some(Kind::read(&$value, &mut self.$field, name, value));
                })+
                None
            }

            /// Whether a parameter of this name may be given more than once.
            pub(super) fn is_repeated(name: &str) -> bool {
                $((<$kind as Kind>::IS_REPEATED && <$kind as Kind>::takes($name, name)) ||)+ false
            }

            /// The given filters with their values, in the order of [`FILTERS`].
            pub fn given(&self) -> impl Iterator<Item = (&'static Declaration, Value<'_>)> {
                let values = [$(<$kind as Kind>::value(&self.$field)),+];
                FILTERS.iter().zip(values).filter_map(|(declared, value)| Some((declared, value?)))
            }
        }
    };
}

run_filters! {
    app_id: Text = "app_id", "App", Text(ID_BYTES), Condition::Equals("app_id"),
        "App";
    status: Choice<RunStatus> = "status", "Status", Choice::new(), Condition::Equals("status"),
        "`success`, `error` or `started`";
    model: Text = "model", "Model", Text(NAME_BYTES), Condition::Equals("model"),
        "Model, exactly";
    agent: Text = "agent", "Agent", Text(NAME_BYTES), Condition::Equals("agent"),
        "Agent, exactly";
    min_latency_s: Number = "min_latency_s", "Latency from", Number(Unit::Seconds), Condition::AtLeast(Measure::Latency),
        "Finished runs of at least so many seconds";
    max_latency_s: Number = "max_latency_s", "Latency to", Number(Unit::Seconds), Condition::AtMost(Measure::Latency),
        "Finished runs of at most so many seconds";
    min_cost: Number = "min_cost", "Cost from", Number(Unit::Dollars), Condition::AtLeast(Measure::Cost),
        "Total cost in USD of at least";
    max_cost: Number = "max_cost", "Cost to", Number(Unit::Dollars), Condition::AtMost(Measure::Cost),
        "Total cost in USD of at most";
    min_tokens: Count = "min_tokens", "Tokens from", Count, Condition::AtLeast(Measure::Tokens),
        "At least so many tokens: `total_tokens_with_children`, which include the tokens of all descendants";
    max_tokens: Count = "max_tokens", "Tokens to", Count, Condition::AtMost(Measure::Tokens),
        "At most so many tokens, counted like `min_tokens`; a run without tokens has 0";
    min_ttft_ms: Count = "min_ttft_ms", "First token from", Count, Condition::AtLeast(Measure::TimeToFirstToken),
        "Model calls whose first token took at least so many milliseconds";
    max_ttft_ms: Count = "max_ttft_ms", "First token to", Count, Condition::AtMost(Measure::TimeToFirstToken),
        "Model calls whose first token took at most so many milliseconds";
    tags: Tags = "tags", "Any tag", Tags, Condition::HasAny("tags"),
        "Any of these tags: repeated or separated by commas; as `tags[]` a comma is part of the tag";
    tags_all: Tags = "tags_all", "Every tag", Tags, Condition::HasAll("tags"),
        "All of these tags; written like `tags`";
    user_email: Text = "user_email", "User", Text(NAME_BYTES), Condition::Equals("user_email"),
        "User, exactly";
    from_ms: Time = "from", "From", Time(Bound::Least), Condition::AtLeast(Measure::Start),
        "Started at or after: ISO 8601 with any offset, a date, or integer milliseconds since 1970";
    to_ms: Time = "to", "To", Time(Bound::Most), Condition::AtMost(Measure::Start),
        "Started at or before: written like `from`; a date means its end";
    kind: Text = "type", "Type", Text(NAME_BYTES), Condition::IsType,
        "Type: `agent`, `llm`, `tool`, ...; `llm` finds every run that reports model calls of its own, whatever its type";
    name: Text = "name", "Name", Text(NAME_BYTES), Condition::Equals("name"),
        "Name, exactly";
    error: Text = "error", "Error", Text(NAME_BYTES), Condition::Equals("error_name"),
        "Name of the error (`error.name`), exactly";
    thread_id: Text = "thread_id", "Thread", Text(ID_BYTES), Condition::Equals("thread_id"),
        "Thread";
    parent_run_id: Text = "parent_run_id", "Parent run", Text(ID_BYTES), Condition::Equals("parent_run_id"),
        "Children of this run";
    root: Flag = "root", "Level", Flag, Condition::IsEmpty("parent_run_id"),
        "Runs without (true) or with (false) a parent";
    has_parent: Flag = "has_parent", "Has a parent", Flag, Condition::IsSet("parent_run_id"),
        "Runs with (true) or without (false) a parent: `has_parent=true` is the same as `root=false`";
    saved: Flag = "saved", "Saved", Flag, Condition::IsTrue("saved"),
        "Runs that are (not) saved";
    stale: Flag = "stale", "Stale", Flag, Condition::Stale,
        "Runs that have (not) been `started` for more than five minutes";
    feedback: Choice<FeedbackFilter> = "feedback", "Feedback", Choice::new(), Condition::Rating("feedback_rating"),
        "`positive`, `negative`, `any` or `none`";
    metadata: Entries = "metadata", "Metadata", Entries, Condition::HasEntries("metadata"),
        "Value of a metadata key, exactly; up to 16 keys";
    text: Text = "q", "Text", Text(FILTER_TEXT_CHARS), Condition::Contains,
        "Text in the name, the error, or the first 160 characters of input and output, whatever its case";
}
