//! Runs as they change, as server-sent events.
//!
//! Each stream pulls for itself, a page at a time and only as fast as its client reads: a slow one waits for nobody and
//! nobody for it, and what changed several times meanwhile comes once, as it is then. One that is too far behind goes on
//! from now, with a gap. Streams are counted (X1); one ends when its credential is revoked, when the server stops and
//! when its client goes away.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::CACHE_CONTROL;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, Stream, StreamExt};
use schemas::fault::Fault;
use schemas::filter::invalid_parameter;
use schemas::run::Instant;
use schemas::timestamp::UnixMs;
use schemas::usage::unpaged;
use serde_json::json;
use store::changes::{BEHIND_MAX, Change, Changes};
use store::filter_sql::Projects;
use store::shares::{Share, ShareBounds, Shares};
use tokio::time::MissedTickBehavior;

use crate::access::Caller;
use crate::error::{FaultBody, Refusal, no_permit};
use crate::params::{Pairs, RunFilterParams};
use crate::runs::shown;
use crate::state::{QueryState, now_ms};

/// Streams at the same time: each asks the database twice a second, some ten milliseconds of a core (X1). Sixteen of
/// them may be of one project, and eight of one credential: some windows of a few people.
const STREAMS_MAX: usize = 32;
/// Seconds after which a client may ask again when there are too many streams.
const FULL_RETRY_S: u32 = 10;
/// Time between two looks: with an insert of some hundred milliseconds a run is there within a second.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// Time after which a silent stream says that it is there; proxies cut silent connections after 30 to 60 seconds.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// The header with which a client takes a stream up again.
const LAST_EVENT_ID: &str = "last-event-id";

/// The permits for streams.
pub(crate) fn streams() -> Shares {
    Shares::new(ShareBounds::halves(STREAMS_MAX, 0))
}

/// Follow runs
///
/// Server-sent events: `event: run` with a run as in the list, each time it changed, as it is when it is sent. With
/// `Last-Event-ID` it goes on behind that event, and runs may come again. Further back than an hour it begins an hour
/// ago; a client that falls behind by an hour, or by minutes of more changes than can be looked through, goes on from
/// now. Both times `event: gap` says from when to when changes are not shown. Beyond gaps, changes that reach the tables
/// more than ten seconds late, as after an outage of the database, and those among more than ten thousand in ten seconds
/// may be missed: the list has them. A comment every ten seconds shows that the stream is there. It ends when the
/// credential is revoked or the server stops.
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
        (status = 200, description = "Events until one side ends it", body = String, content_type = "text/event-stream"),
        (status = 400, description = "An unknown parameter, or a value that cannot be meant", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "The credential may not read, or not this project", body = FaultBody),
        (status = 429, description = "The credential or its project has its share under way", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
        (status = 500, description = "The server failed", body = FaultBody),
        (status = 503, description = "All streams are open, or the database is away or busy", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = []))
)]
pub(crate) async fn live(
    State(state): State<QueryState>,
    caller: Caller,
    headers: HeaderMap,
    pairs: Pairs,
) -> Result<Response, Refusal> {
    let state = state.on_behalf_of(&caller);
    let query = unpaged(pairs.iter())?;
    let projects = caller.readable(query.project_id.as_deref())?;
    let last_ms = last_event_ms(&headers)?;
    let share = state.streams().take_now(&caller.holder());
    let share = share.map_err(|full| no_permit(full, "streams", FULL_RETRY_S))?;
    let (store, now_ms) = (state.store().clone(), now_ms());
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
        stopping: state.stopping(),
        state,
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
    state: QueryState,
    caller: Caller,
    /// The project the caller chose.
    chosen: Option<String>,
    projects: Projects,
    changes: Changes,
    waiting: VecDeque<Event>,
    stopping: tokio::sync::watch::Receiver<bool>,
    _share: Share,
}

impl Follower {
    /// The events, until the stream has to end.
    fn events(self) -> impl Stream<Item = Result<Event, Infallible>> {
        let mut looks = tokio::time::interval(LOOK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        stream::unfold((self, looks), async |(mut follower, mut looks)| {
            loop {
                if let Some(event) = follower.waiting.pop_front() {
                    return Some((Ok(event), (follower, looks)));
                }
                let mut stopping = follower.stopping.clone();
                let goes_on = tokio::select! {
                    _ = stopping.wait_for(|is_stopping| *is_stopping) => false,
                    goes_on = async {
                        looks.tick().await;
                        follower.look(&mut looks).await
                    } => goes_on,
                };
                if !goes_on {
                    return None;
                }
            }
        })
    }

    /// Looks once for changes; `false` when the stream has to end.
    async fn look(&mut self, looks: &mut tokio::time::Interval) -> bool {
        match self.caller.again(&self.state).await {
            Ok(Some(caller)) => {
                if caller.readable(self.chosen.as_deref()).as_ref() != Ok(&self.projects) {
                    return false;
                }
            }
            Ok(None) => return false,
            // What cannot be checked now is not in the cache: rather nothing than something that may be forbidden.
            Err(error) => {
                tracing::debug!(error.message = %error, "a stream waits for credentials to be checked");
                return true;
            }
        }
        let now_ms = now_ms();
        match self.changes.next(now_ms).await {
            Ok(page) => {
                if page.has_more {
                    looks.reset_immediately();
                }
                if let Some(passed) = page.gap {
                    tracing::debug!("a stream is too far behind and goes on from now");
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
    let run = shown(change.run, projects, now_ms);
    let id = change.at_ms.to_string();
    Event::default().event("run").id(id).json_data(run).ok()
}

/// Says that changes between two moments are not shown. Its id is the second: who comes back does not ask for them.
fn gap(from_ms: UnixMs, to_ms: UnixMs) -> Event {
    let data = json!({"from": Instant(from_ms), "to": Instant(to_ms)});
    let event = Event::default().event("gap").id(to_ms.to_string());
    event.data(data.to_string())
}

/// The id of the last event the client read, which is a time.
fn last_event_ms(headers: &HeaderMap) -> Result<Option<UnixMs>, Fault> {
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
