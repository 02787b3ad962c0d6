//! `/api/thread`: the thread list, and one thread with its messages.

use std::collections::{HashMap, HashSet};

use api::{ErrorResponse, errors};
use axum::Json;
use axum::extract::State;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use schemas::api_error::ApiError;
use schemas::filter::{CURSOR_CHARS, LIMIT_DEFAULT, LIMIT_MAX, Shape};
use schemas::ids::EventId;
use schemas::run::Instant;
use schemas::thread::{GroupedBy, Thread, ThreadDetail, ThreadMessage, ThreadPage, ThreadQuery};
use store::Store;
use store::reads::feedback::FeedbackRecord;
use store::reads::filter_sql::Projects;
use store::reads::threads::{MessageRecord, MessagesOfThread, ThreadName, ThreadRecord};

use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};

use crate::access::{Caller, is_one};
use crate::params::{
    Limit, Pairs, Param, Text, any_text, choice_param, filter_schema, path_params, query_parameter,
    query_params, schema_of,
};
use crate::views::run_detail;

/// Parameters of the thread list, which [`ThreadQuery::from_pairs`] parses.
pub(crate) struct ThreadListParams;

impl IntoParams for ThreadListParams {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let filters = [
            ("app_id", "App"),
            ("agent", "Threads with a message or a turn of this agent"),
            (
                "user_email",
                "Threads with a message or a turn of this user",
            ),
            (
                "feedback",
                "Threads with a message whose newest rating is `positive`, `negative` or `any` of them, or without one (`none`)",
            ),
            (
                "from",
                "Last message at or after: ISO 8601 with any offset, a date, or integer milliseconds since 1970",
            ),
            (
                "to",
                "Last message at or before: as `from`; a date means its end",
            ),
        ];
        let filters = filters
            .into_iter()
            .map(|(name, description)| query_parameter(name, description, filter_schema(name)));
        let limit = format!("Largest page size, default {LIMIT_DEFAULT}");
        let cursor = "`next_cursor` of the previous page, with the same filter";
        let project = "One of the projects that the credential reaches; all of them without it";
        let others = [
            query_parameter("limit", &limit, Limit::<{ LIMIT_MAX as usize }>::schema()),
            query_parameter("cursor", cursor, schema_of(Shape::Text(CURSOR_CHARS))),
            query_parameter("project_id", project, Text::schema()),
        ];
        filters.chain(others).collect()
    }
}

choice_param!(GroupedByParam -> GroupedBy {
    "thread_id" => GroupedBy::ThreadId, "window" => GroupedBy::Window,
});

query_params! {
    pub(crate) struct ThreadParams {
        /// App
        app_id: Text,
        /// Only a thread with this `thread_id`, or only a `window`; without it a `thread_id` takes precedence
        grouped_by: GroupedByParam,
        /// One of the projects that the credential reaches
        project_id: Text,
    }
}

path_params! {
    pub(crate) struct ThreadPath {
        /// The `thread_id` of messages, or the id of a window
        "thread_id" thread_id: any_text(),
    }
}

/// List threads
///
/// Conversations, newest message first: messages with the same `thread_id`, and windows of messages without one that
/// have the same app, agent and user and follow each other within 30 minutes. A thread that gets a message between two
/// pages moves to the front; all other threads are on exactly one page.
#[utoipa::path(
    get,
    path = "/api/thread",
    operation_id = "list_threads",
    tag = "threads",
    params(ThreadListParams),
    responses(
        (status = 200, description = "A page", body = ThreadPage),
        errors::AnyOf<(errors::Common, errors::Shared, errors::Paged)>,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn list(
    State(store): State<Store>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<ThreadPage>, ErrorResponse> {
    let store = store.on_behalf_of(caller.holder());
    let pairs: Vec<(&str, &str)> = pairs.iter().collect();
    let query = ThreadQuery::from_pairs(pairs)?;
    let projects = caller.readable(query.project_id.as_deref())?;
    let after = query.place()?;
    let page = store.list_threads(&projects, &query, after).await?;
    Ok(Json(ThreadPage {
        data: page
            .threads
            .into_iter()
            .map(|record| thread(record, &projects))
            .collect(),
        has_more: page.next.is_some(),
        next_cursor: page.next.map(|place| query.cursor_after(place)),
    }))
}

/// Get a thread
///
/// Messages in order, at most 10,000 or 32 MiB, each with its newest rating and a link to its run. Where no `chat` event
/// names the thread, each of its turns has two messages: the question in the run's input and the answer in its output. If several apps use
/// the id, the thread with the newest message is returned unless `app_id` selects one. Write slashes in an id as `%2F`.
/// The id of a window stays valid when messages are added before or after it.
#[utoipa::path(
    get,
    path = "/api/thread/{thread_id}",
    operation_id = "get_thread",
    tag = "threads",
    params(ThreadPath, ThreadParams),
    responses(
        (status = 200, description = "The thread", body = ThreadDetail),
        errors::AnyOf<(errors::Common, errors::Shared, errors::NotFound)>,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn one(
    State(store): State<Store>,
    caller: Caller,
    ThreadPath { thread_id }: ThreadPath,
    pairs: Pairs,
) -> Result<Json<ThreadDetail>, ErrorResponse> {
    let store = store.on_behalf_of(caller.holder());
    let params = ThreadParams::read(&pairs)?;
    let projects = caller.readable(params.project_id.as_deref())?;
    let name = ThreadName {
        app_id: params.app_id.as_deref(),
        thread_id: &thread_id,
        grouped_by: params.grouped_by,
    };
    match store.thread(&projects, name).await? {
        Some(found) => Ok(Json(thread_detail(found, &projects))),
        None => Err(ApiError::not_found("thread not found").into()),
    }
}

/// Without the project if the caller reaches only one.
fn thread(record: ThreadRecord, projects: &Projects) -> Thread {
    let mut thread = record.into_thread();
    if is_one(projects) {
        thread.project_id = None;
    }
    thread
}

fn thread_detail(found: MessagesOfThread, projects: &Projects) -> ThreadDetail {
    let thread = thread(found.thread, projects);
    let answered: HashSet<&str> = found
        .messages
        .iter()
        .filter(|message| message.role == "assistant")
        .map(|message| message.run_id.as_str())
        .collect();
    let ratings: Vec<Option<FeedbackRecord>> = found
        .messages
        .iter()
        .map(|message| rating_of(message, &answered, &found.feedback))
        .collect();
    let messages = found
        .messages
        .into_iter()
        .zip(ratings)
        .map(|(message, rating)| ThreadMessage {
            event_id: EventId(message.event_id).to_string(),
            run: found
                .runs
                .contains(&message.run_id)
                .then(|| run_path(&message.run_id, &thread)),
            role: message.role,
            content: message.content,
            timestamp: Instant(message.timestamp),
            run_id: message.run_id,
            feedback: rating.map(run_detail::feedback),
        })
        .collect();
    ThreadDetail {
        thread,
        messages,
        truncated: found.cut,
        also_in_apps: found.also_in_apps,
    }
}

/// The rating of a message. A question and its answer may have the same id: the rating belongs to the answer.
fn rating_of(
    message: &MessageRecord,
    answered: &HashSet<&str>,
    feedback: &HashMap<String, FeedbackRecord>,
) -> Option<FeedbackRecord> {
    let is_rated = message.role == "assistant" || !answered.contains(message.run_id.as_str());
    feedback.get(&message.run_id).filter(|_| is_rated).cloned()
}

fn run_path(run_id: &str, thread: &Thread) -> String {
    let encoded = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
    let mut path = format!(
        "/api/run/{}?app_id={}",
        encoded(run_id),
        encoded(&thread.app_id)
    );
    if let Some(project) = &thread.project_id {
        path.push_str(&format!("&project_id={}", encoded(project)));
    }
    path
}
