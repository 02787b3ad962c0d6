//! The rows of `events` and `runs`, as they are written: borrowed, column by column.
//!
//! Times are Unix milliseconds, costs are the decimal times 10^18, empty text means "none".

use schemas::fold;
use schemas::start::Start;

use crate::row_binary::row_binary;

/// A row of `events`.
#[derive(Clone, Debug)]
pub struct EventRow<'a> {
    /// The tenant.
    pub project_id: &'a str,
    /// The app inside the project.
    pub app_id: &'a str,
    /// The event's own time, Unix milliseconds.
    pub timestamp: i64,
    /// The run it belongs to.
    pub run_id: &'a str,
    /// Identity: two rows with the same one are the same event.
    pub event_id: u128,
    /// The event's name.
    pub name: &'a str,
    /// The event's own JSON bytes.
    pub payload: &'a [u8],
    /// When it was accepted, Unix milliseconds.
    pub received_at: i64,
    /// When this row was written, Unix milliseconds.
    pub stored_at: i64,
}

/// `status` of a run, as the table numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum RunStatus {
    /// Not closed yet.
    Started = 1,
    /// Closed well.
    Success = 2,
    /// Closed with an error.
    Error = 3,
}

/// Why the cost of a run is what it is, as the table numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum CostStatus {
    /// From the price table.
    Priced = 1,
    /// Given by the client.
    Provided = 2,
    /// Not a model call.
    NotLlm = 3,
    /// A model call that names no model.
    NoModel = 4,
    /// A model call without token counts.
    NoTokens = 5,
    /// The price table has no row for the model.
    UnpricedModel = 6,
}

/// What a number of the table means; a number nobody writes means that there is nothing to price.
pub fn cost_status(number: i8) -> fold::CostStatus {
    match number {
        1 => fold::CostStatus::Priced,
        2 => fold::CostStatus::Provided,
        4 => fold::CostStatus::NoModel,
        5 => fold::CostStatus::NoTokens,
        6 => fold::CostStatus::UnpricedModel,
        _ => fold::CostStatus::NotLlm,
    }
}

/// A row of `runs`.
#[derive(Clone, Debug)]
pub struct RunRow<'a> {
    /// The tenant.
    pub project_id: &'a str,
    /// The app inside the project.
    pub app_id: &'a str,
    /// Start, Unix milliseconds: part of the key, so a run whose start moves leaves a tombstone behind.
    pub started_at: i64,
    /// The run.
    pub run_id: &'a str,
    /// The greatest version of a key is the one that counts.
    pub version: u64,
    /// 1 for a tombstone.
    pub is_deleted: u8,
    /// The parent, empty for none.
    pub parent_run_id: &'a str,
    /// The topmost known ancestor, the run itself when it has none.
    pub root_run_id: &'a str,
    /// Name of the run.
    pub name: &'a str,
    /// `agent`, `llm`, `tool`, ...
    pub r#type: &'a str,
    /// Where it is in its life.
    pub status: RunStatus,
    /// Its own agent or the nearest ancestor's.
    pub agent: &'a str,
    /// Its own user or the nearest ancestor's.
    pub user_email: &'a str,
    /// Model of a model call.
    pub model: &'a str,
    /// Tags, sorted.
    pub tags: Vec<&'a str>,
    /// Conversation it belongs to.
    pub thread_id: &'a str,
    /// End, Unix milliseconds.
    pub ended_at: Option<i64>,
    /// End minus start.
    pub latency_ms: Option<i64>,
    /// Tokens of the prompt, own.
    pub prompt_tokens: Option<u64>,
    /// Tokens of the completion, own.
    pub completion_tokens: Option<u64>,
    /// All tokens, own.
    pub total_tokens: Option<u64>,
    /// Cached part of the prompt's tokens, own.
    pub cached_tokens: Option<u64>,
    /// Reasoning part of the completion's tokens, own.
    pub reasoning_tokens: Option<u64>,
    /// Own cost in USD times 10^18.
    pub cost: i128,
    /// Why the cost is what it is.
    pub cost_status: CostStatus,
    /// 1 when the cost is an estimate.
    pub cost_estimated: u8,
    /// Cost with all descendants, USD times 10^18.
    pub total_cost: i128,
    /// Prompt tokens with all descendants.
    pub total_prompt_tokens: u64,
    /// Completion tokens with all descendants.
    pub total_completion_tokens: u64,
    /// All tokens with all descendants.
    pub total_tokens_with_children: u64,
    /// Model calls, with all descendants.
    pub llm_calls: u64,
    /// Errors, with all descendants.
    pub error_count: u64,
    /// Class of the error.
    pub error_name: &'a str,
    /// What the error says.
    pub error_message: &'a str,
    /// 1 when marked as saved.
    pub saved: u8,
    /// `positive`, `negative` or empty.
    pub feedback_rating: &'a str,
    /// Comment of the newest feedback.
    pub feedback_comment: &'a str,
    /// Time of the newest feedback, Unix milliseconds.
    pub feedback_at: Option<i64>,
    /// Beginning of the input.
    pub input_preview: &'a str,
    /// Beginning of the output.
    pub output_preview: &'a str,
    /// Free keys of the run, sorted by key.
    pub metadata: Vec<(&'a str, &'a str)>,
    /// Earliest timestamp of its events: with the next one, the key range of the run in `events`.
    pub first_event_at: i64,
    /// Latest timestamp of its events.
    pub last_event_at: i64,
    /// Wall clock of this write.
    pub updated_at: i64,
    /// The fold's state, opaque here.
    pub state: &'a [u8],
}

/// A row of `messages`: one chat event.
#[derive(Clone, Debug)]
pub struct MessageRow<'a> {
    /// The tenant.
    pub project_id: &'a str,
    /// The app inside the project.
    pub app_id: &'a str,
    /// When it was said, Unix milliseconds.
    pub timestamp: i64,
    /// Identity of the event.
    pub event_id: u128,
    /// The run, or the message, it names itself by.
    pub run_id: &'a str,
    /// The parent it names, empty for none.
    pub parent_run_id: &'a str,
    /// The thread it names, empty for none.
    pub thread_id: &'a str,
    /// The agent it names, empty for none.
    pub agent: &'a str,
    /// The user it names, empty for none.
    pub user_email: &'a str,
    /// `user`, `assistant`, `system` or `tool`.
    pub role: &'a str,
    /// What was said, whole.
    pub content: &'a str,
}

/// A row of `feedback`: one feedback event.
#[derive(Clone, Debug)]
pub struct FeedbackRow<'a> {
    /// The tenant.
    pub project_id: &'a str,
    /// The app inside the project.
    pub app_id: &'a str,
    /// The run or message it judges.
    pub run_id: &'a str,
    /// When it was given, Unix milliseconds.
    pub timestamp: i64,
    /// Identity of the event.
    pub event_id: u128,
    /// `positive`, `negative`, or empty where an old client gave only words.
    pub rating: &'a str,
    /// In words, empty for none.
    pub comment: &'a str,
}

/// A row of `process_instances`: one start of a process.
#[derive(Clone, Debug)]
pub struct InstanceRow<'a> {
    /// The tenant.
    pub project_id: &'a str,
    /// The app inside the project.
    pub app_id: &'a str,
    /// Unix milliseconds.
    pub started_at: i64,
    /// Identity.
    pub uuid: &'a str,
    /// Of two rows with one identity the first one counts, so an equal one changes nothing.
    pub version: u64,
    /// Its number.
    pub instance_id: u64,
    /// The build.
    pub build_id: &'a str,
    /// Status of the build at the start.
    pub build_status: &'a str,
    /// Name of the process.
    pub process: &'a str,
    /// Identifier of the process definition.
    pub process_uuid: &'a str,
    /// Empty for none.
    pub parent_app_id: &'a str,
    /// Empty for none.
    pub root_app_id: &'a str,
    /// State.
    pub state: &'a str,
    /// JSON, a list.
    pub tokens: &'a str,
    /// JSON as it was sent.
    pub input: &'a str,
    /// What the client said it runs on.
    pub platform: &'a str,
    /// Public identifier of the credential.
    pub started_by: &'a str,
    /// Tells whether another request is the same.
    pub fingerprint: &'a str,
}

impl<'a> InstanceRow<'a> {
    /// The row of an instance of this project and app, started with this input.
    pub fn of(project_id: &'a str, app_id: &'a str, start: &'a Start, input: &'a str) -> Self {
        Self {
            project_id,
            app_id,
            started_at: start.started_at_ms,
            uuid: &start.uuid,
            version: start.instance_id,
            instance_id: start.instance_id,
            build_id: &start.build_id,
            build_status: &start.build_status,
            process: &start.process,
            process_uuid: &start.process_uuid,
            parent_app_id: &start.parent_app_id,
            root_app_id: &start.root_app_id,
            state: &start.state,
            tokens: &start.tokens,
            input,
            platform: &start.platform,
            started_by: &start.started_by,
            fingerprint: &start.fingerprint,
        }
    }
}

row_binary! {
    InstanceRow in "process_instances" {
        project_id, app_id, started_at, uuid, version, instance_id, build_id, build_status, process, process_uuid,
        parent_app_id, root_app_id, state, tokens, input, platform, started_by, fingerprint,
    }
}

row_binary! {
    MessageRow in "messages" {
        project_id, app_id, timestamp, event_id, run_id, parent_run_id, thread_id, agent, user_email, role, content,
    }
}

row_binary! {
    FeedbackRow in "feedback" {
        project_id, app_id, run_id, timestamp, event_id, rating, comment,
    }
}

row_binary! {
    EventRow in "events" {
        project_id, app_id, timestamp, run_id, event_id, name, payload, received_at, stored_at,
    }
}

row_binary! {
    RunRow in "runs" {
        project_id, app_id, started_at, run_id, version, is_deleted, parent_run_id, root_run_id, name,
        r#type, status, agent, user_email, model, tags, thread_id, ended_at, latency_ms, prompt_tokens,
        completion_tokens, total_tokens, cached_tokens, reasoning_tokens, cost, cost_status,
        cost_estimated, total_cost, total_prompt_tokens, total_completion_tokens,
        total_tokens_with_children, llm_calls, error_count, error_name, error_message, saved,
        feedback_rating, feedback_comment, feedback_at, input_preview, output_preview, metadata,
        first_event_at, last_event_at, updated_at, state,
    }
}

/// Reads a `String` column that need not be UTF-8.
pub(crate) mod raw_bytes {
    use serde::de::{Deserializer, Error, Visitor};

    struct Bytes;

    impl Visitor<'_> for Bytes {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("bytes")
        }

        fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
            Ok(bytes.to_vec())
        }

        fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
            Ok(bytes)
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        deserializer.deserialize_byte_buf(Bytes)
    }
}
