//! The thread list, and one thread with its messages.

use std::collections::{HashMap, HashSet};

use axum::Json;
use axum::extract::State;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use schemas::fault::Fault;
use schemas::filter::invalid_parameter;
use schemas::ids::EventId;
use schemas::run::Instant;
use schemas::thread::{GroupedBy, Thread, ThreadDetail, ThreadMessage, ThreadPage, ThreadQuery};
use store::feedback_read::Judged;
use store::filter_sql::Projects;
use store::threads_read::{MessageRecord, MessagesOfThread, ThreadName, ThreadRecord};

use crate::access::{Caller, is_one};
use crate::detail::judgement;
use crate::error::{FaultBody, Refusal};
use crate::params::{Pairs, PathId};
use crate::state::QueryState;

/// List threads
///
/// Conversations, that with the newest message first: threads that messages name by `thread_id`, and windows of messages
/// without one, of the same app, agent and user, that follow each other by at most 30 minutes. Pages go on with
/// `cursor`: no thread twice and none left out, unless it gets a message meanwhile, which puts it at the front.
#[utoipa::path(
    get,
    path = "/api/thread",
    operation_id = "list_threads",
    tag = "threads",
    params(
        ("app_id" = Option<String>, Query, description = "App", min_length = 1, max_length = 256),
        ("agent" = Option<String>, Query, description = "Threads with a message that names this agent", min_length = 1, max_length = 512),
        ("user_email" = Option<String>, Query, description = "Threads with a message that names this user", min_length = 1, max_length = 512),
        ("feedback" = Option<String>, Query, description = "Threads with a message whose newest rating is `positive`, `negative`, `any` of them, or with `none` at all", pattern = "^(positive|negative|any|none)$"),
        ("from" = Option<String>, Query, description = "Last message at or after: ISO 8601 with any offset, a date, or integer milliseconds since 1970"),
        ("to" = Option<String>, Query, description = "Last message at or before: written like `from`; a date means its end"),
        ("limit" = Option<u32>, Query, description = "Threads on the page, 50 unless given", minimum = 1, maximum = 1000),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before, with the same filter", min_length = 1, max_length = 1024),
        ("project_id" = Option<String>, Query, description = "One of the projects the credential reaches; all of them without it", min_length = 1, max_length = 256),
    ),
    responses(
        (status = 200, description = "A page", body = ThreadPage),
        (status = 400, description = "An unknown parameter, or a value that cannot be meant; the message names both and what is allowed", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "The credential may not read, or not this project", body = FaultBody),
        (status = 429, description = "The credential or its project has its share under way", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
        (status = 500, description = "The server failed", body = FaultBody),
        (status = 503, description = "The database is away or busy, or the question took too long", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = []))
)]
pub(crate) async fn list(
    State(state): State<QueryState>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<ThreadPage>, Refusal> {
    let state = state.on_behalf_of(&caller);
    let pairs: Vec<(&str, &str)> = pairs.iter().collect();
    let query = ThreadQuery::from_pairs(pairs)?;
    let projects = caller.readable(query.project_id.as_deref())?;
    let after = query.place()?;
    let page = state.store().list_threads(&projects, &query, after).await?;
    Ok(Json(ThreadPage {
        data: page
            .threads
            .into_iter()
            .map(|thread| shown(thread, &projects))
            .collect(),
        has_more: page.next.is_some(),
        next_cursor: page.next.map(|place| query.cursor_after(place)),
    }))
}

/// One thread
///
/// Its messages in order, at most 10,000 of them or 32 MiB, with the newest rating of each and a link to its run. A name
/// that several apps use means the thread with the newest message unless `app_id` says which. Slashes in a name are
/// written `%2F`. The id of a window goes on leading to it when messages are added before or after.
#[utoipa::path(
    get,
    path = "/api/thread/{thread_id}",
    operation_id = "get_thread",
    tag = "threads",
    params(
        ("thread_id" = String, Path, description = "The thread: the clients' name or the id of a window"),
        ("app_id" = Option<String>, Query, description = "App", min_length = 1, max_length = 256),
        ("grouped_by" = Option<String>, Query, description = "Only a thread that messages name (`thread_id`) or only a `window`; without it a name goes first", pattern = "^(thread_id|window)$"),
        ("project_id" = Option<String>, Query, description = "One of the projects the credential reaches", min_length = 1, max_length = 256),
    ),
    responses(
        (status = 200, description = "The thread", body = ThreadDetail),
        (status = 400, description = "An unknown parameter or a bad value", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "The credential may not read, or not this project", body = FaultBody),
        (status = 404, description = "There is no such thread, or none that the credential reaches", body = FaultBody),
        (status = 429, description = "The credential or its project has its share under way", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
        (status = 500, description = "The server failed", body = FaultBody),
        (status = 503, description = "The database is away or busy", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = []))
)]
pub(crate) async fn one(
    State(state): State<QueryState>,
    caller: Caller,
    PathId(thread_id): PathId,
    pairs: Pairs,
) -> Result<Json<ThreadDetail>, Refusal> {
    let state = state.on_behalf_of(&caller);
    let [app_id, project_id, grouped_by] = pairs.only(["app_id", "project_id", "grouped_by"])?;
    let grouped_by = match grouped_by {
        None => None,
        Some("thread_id") => Some(GroupedBy::ThreadId),
        Some("window") => Some(GroupedBy::Window),
        Some(other) => {
            return Err(invalid_parameter("grouped_by", other, "thread_id, window").into());
        }
    };
    let projects = caller.readable(project_id)?;
    let name = ThreadName {
        app_id,
        thread_id: &thread_id,
        grouped_by,
    };
    match state.store().thread(&projects, name).await? {
        Some(found) => Ok(Json(whole(found, &projects))),
        None => Err(Fault::not_found("there is no such thread, or it is not yours to see").into()),
    }
}

/// Names the project only where the caller reaches more than one.
fn shown(thread: ThreadRecord, projects: &Projects) -> Thread {
    let mut thread = thread.into_thread();
    if is_one(projects) {
        thread.project_id = None;
    }
    thread
}

fn whole(found: MessagesOfThread, projects: &Projects) -> ThreadDetail {
    let thread = shown(found.thread, projects);
    let answered: HashSet<&str> = found
        .messages
        .iter()
        .filter(|message| message.role == "assistant")
        .map(|message| message.run_id.as_str())
        .collect();
    let judged: Vec<Option<Judged>> = found
        .messages
        .iter()
        .map(|message| on_message(message, &answered, &found.feedback))
        .collect();
    let messages = found
        .messages
        .into_iter()
        .zip(judged)
        .map(|(message, judged)| ThreadMessage {
            event_id: EventId(message.event_id).to_string(),
            run: found
                .runs
                .contains(&message.run_id)
                .then(|| path_of_run(&message.run_id, &thread)),
            role: message.role,
            content: message.content,
            timestamp: Instant(message.timestamp),
            run_id: message.run_id,
            feedback: judged.map(judgement),
        })
        .collect();
    ThreadDetail {
        thread,
        messages,
        truncated: found.cut,
        also_in_apps: found.also_in_apps,
    }
}

/// The rating a message shows. A question and its answer may have the same id: the rating is of the answer.
fn on_message(
    message: &MessageRecord,
    answered: &HashSet<&str>,
    feedback: &HashMap<String, Judged>,
) -> Option<Judged> {
    let is_judged = message.role == "assistant" || !answered.contains(message.run_id.as_str());
    feedback.get(&message.run_id).filter(|_| is_judged).cloned()
}

fn path_of_run(run_id: &str, thread: &Thread) -> String {
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
