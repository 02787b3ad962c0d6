//! `GET /api/run/live`: changed runs as server-sent events.
//!
//! Each stream reads pages of changes as fast as its client does, so slow streams do not affect others; a run that
//! changed several times between two pages is sent once, in its last state. A stream that falls too far behind continues
//! from now, with a gap. The number of streams is bounded (X1); a stream ends when its credential is revoked, when the
//! server stops, and when its client disconnects.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use api::{ErrorResponse, errors};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::CACHE_CONTROL;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, Stream, StreamExt};
use schemas::api_error::ApiError;
use schemas::filter::invalid_parameter;
use schemas::run::Instant;
use schemas::timestamp::UnixMs;
use schemas::usage::unpaged;
use serde_json::json;
use store::Store;
use store::reads::changes::{BEHIND_MAX, Change, Changes};
use store::reads::filter_sql::Projects;
use store::shares::{Share, ShareBounds, Shares};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use crate::access::{Authenticator, Caller};
use crate::clock::now_ms;
use crate::error::no_permit;
use crate::params::{Pairs, RunFilterParams};
use crate::views;

/// Concurrent streams: each queries the database twice a second, some ten milliseconds of a core (X1). One project can
/// have sixteen of them, one credential eight: a few browser windows of a few users.
const STREAMS_MAX: usize = 32;
/// Seconds after which a client can retry.
const FULL_RETRY_S: u32 = 10;
/// Time between two queries: with an insert of some hundred milliseconds a run is sent within a second.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Time between comments on an idle stream; proxies close idle connections after 30 to 60 seconds.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// The header with which a client resumes a stream.
const LAST_EVENT_ID: &str = "last-event-id";

#[derive(Clone)]
pub(crate) struct LiveState {
    pub(crate) store: Store,
    pub(crate) streams: LiveStreams,
    pub(crate) authenticator: Authenticator,
}

/// Permits for streams, and the signal that ends them. Clones share both.
#[derive(Clone)]
pub(crate) struct LiveStreams {
    shares: Shares,
    stopping: watch::Sender<bool>,
}

impl LiveStreams {
    /// Ends all streams: they would hold their connections until their clients disconnect.
    pub(crate) fn end(&self) {
        self.stopping.send_replace(true);
    }
}

impl Default for LiveStreams {
    fn default() -> Self {
        Self {
            shares: Shares::new(ShareBounds::halves(STREAMS_MAX, 0)),
            stopping: watch::Sender::new(false),
        }
    }
}

/// Follow runs
///
/// Server-sent events: `event: run` with a changed run in the shape of the list, in its state when it is sent. With
/// `Last-Event-ID` the stream continues after that event, and may repeat runs. It begins at most an hour ago; a client
/// that falls behind by an hour, or by more changes than can be read, continues from now. In both cases `event: gap`
/// contains the times between which changes are missing. A stream may also miss changes that are stored more than ten
/// seconds late, for example after an outage of the database, and changes among more than ten thousand in ten seconds:
/// the list has them. A comment is sent every ten seconds. The stream ends when the credential is revoked or the server
/// stops.
#[utoipa::path(
    get,
    path = "/api/run/live",
    operation_id = "follow_runs",
    tag = "runs",
    params(
        RunFilterParams,
        ("Last-Event-ID" = Option<i64>, Header, description = "`id` of the last event that was read", minimum = 0),
    ),
    responses(
        (status = 200, description = "The stream of events", body = String, content_type = "text/event-stream"),
        errors::AnyOf<(errors::Common, errors::Shared)>,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn live(
    State(state): State<LiveState>,
    caller: Caller,
    headers: HeaderMap,
    pairs: Pairs,
) -> Result<Response, ErrorResponse> {
    let store = state.store.on_behalf_of(caller.holder());
    let query = unpaged(pairs.iter())?;
    let projects = caller.readable(query.project_id.as_deref())?;
    let last_ms = last_event_ms(&headers)?;
    let share = state.streams.shares.take_now(&caller.holder());
    let share = share.map_err(|full| no_permit(full, "streams", FULL_RETRY_S))?;
    let now_ms = now_ms();
    let mut waiting = VecDeque::new();
    let changes = match last_ms {
        None => Changes::from_now(store, projects.clone(), query.filter, now_ms).await?,
        Some(last_ms) => {
            let behind_max_ms = i64::try_from(BEHIND_MAX.as_millis()).unwrap_or(i64::MAX);
            let from_ms = last_ms.clamp(now_ms - behind_max_ms, now_ms);
            if from_ms > last_ms {
                waiting.push_back(gap(last_ms, from_ms));
            }
            Changes::from(store, projects.clone(), query.filter, from_ms)
        }
    };
    let follower = Follower {
        stopping: state.streams.stopping.subscribe(),
        authenticator: state.authenticator,
        caller,
        chosen: query.project_id,
        projects,
        changes,
        waiting,
        _share: share,
    };
    let events =
        Sse::new(follower.events().fuse()).keep_alive(KeepAlive::new().interval(HEARTBEAT));
    Ok(([(CACHE_CONTROL, "no-store")], events).into_response())
}

/// One open stream.
struct Follower {
    authenticator: Authenticator,
    caller: Caller,
    /// The project that the request selects.
    chosen: Option<String>,
    projects: Projects,
    changes: Changes,
    waiting: VecDeque<Event>,
    stopping: watch::Receiver<bool>,
    _share: Share,
}

impl Follower {
    fn events(self) -> impl Stream<Item = Result<Event, Infallible>> {
        let mut ticks = tokio::time::interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        stream::unfold((self, ticks), async |(mut follower, mut ticks)| {
            loop {
                if let Some(event) = follower.waiting.pop_front() {
                    return Some((Ok(event), (follower, ticks)));
                }
                let mut stopping = follower.stopping.clone();
                let continues = tokio::select! {
                    _ = stopping.wait_for(|is_stopping| *is_stopping) => false,
                    continues = async {
                        ticks.tick().await;
                        follower.poll(&mut ticks).await
                    } => continues,
                };
                if !continues {
                    return None;
                }
            }
        })
    }

    /// Reads a page of changes; `false` when the stream has to end.
    async fn poll(&mut self, ticks: &mut tokio::time::Interval) -> bool {
        match self.caller.reauthenticate(&self.authenticator).await {
            Ok(Some(caller)) => {
                if caller.readable(self.chosen.as_deref()).as_ref() != Ok(&self.projects) {
                    return false;
                }
            }
            Ok(None) => return false,
            // The permission is unknown, so nothing is sent.
            Err(error) => {
                tracing::debug!(error.message = %error, "a stream waits for credentials to be checked");
                return true;
            }
        }
        let now_ms = now_ms();
        match self.changes.next(now_ms).await {
            Ok(page) => {
                if page.has_more {
                    ticks.reset_immediately();
                }
                if let Some(passed) = page.gap {
                    tracing::debug!("a stream is too far behind and continues from now");
                    self.waiting.push_back(gap(passed.from_ms, passed.to_ms));
                }
                let events = page
                    .changes
                    .into_iter()
                    .filter_map(|change| event(change, &self.projects, now_ms));
                self.waiting.extend(events);
            }
            Err(error) => {
                tracing::debug!(error.message = %error, "a stream waits for the database")
            }
        }
        true
    }
}

fn event(change: Change, projects: &Projects, now_ms: UnixMs) -> Option<Event> {
    let run = views::run(change.run, projects, now_ms);
    let id = change.at_ms.to_string();
    Event::default().event("run").id(id).json_data(run).ok()
}

/// The changes between two times are missing. The id is the second one, so that a resumed stream continues there.
fn gap(from_ms: UnixMs, to_ms: UnixMs) -> Event {
    let data = json!({"from": Instant(from_ms), "to": Instant(to_ms)});
    let event = Event::default().event("gap").id(to_ms.to_string());
    event.data(data.to_string())
}

/// Ids of events are times.
fn last_event_ms(headers: &HeaderMap) -> Result<Option<UnixMs>, ApiError> {
    let Some(value) = headers.get(LAST_EVENT_ID) else {
        return Ok(None);
    };
    let text = value.to_str().unwrap_or_default().trim();
    if text.is_empty() {
        return Ok(None);
    }
    match text.parse() {
        Ok(last_ms @ 0..) => Ok(Some(last_ms)),
        _ => Err(invalid_parameter(
            "Last-Event-ID",
            text,
            "the `id` of an event of this stream",
        )),
    }
}
