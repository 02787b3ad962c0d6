//! `GET /api/internal/pipeline`: event counts of every process, and the state of the log.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::views::NO_STORE;
use api::{ErrorResponse, errors};
use axum::Json;
use axum::extract::State;
use axum::http::HeaderName;
use schemas::run::Instant as Moment;
use serde::Serialize;
use tokio::sync::Mutex;
use utoipa::ToSchema;

use crate::access::Caller;
use crate::clock::now_ms;
use crate::params::Pairs;
use crate::ports::Port;
use crate::ports::infrastructure::{Infrastructure, LogReport};
use crate::ports::processes::Processes;
use schemas::control::{KnownProcess, WaitingMarks};

/// How long a state of the log is cached: every open page polls every two seconds (X1).
const LOG_CACHED_FOR: Duration = Duration::from_secs(1);
const LOG_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub(crate) struct PipelineState {
    pub(crate) infrastructure: Port<dyn Infrastructure>,
    pub(crate) processes: Port<dyn Processes>,
    pub(crate) log: CachedLog,
}

/// The last state of the log. Locked during a query, so that one runs at a time. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct CachedLog(Arc<Mutex<Option<LastState>>>);

type LastState = (Instant, Result<LogReport, String>);

impl CachedLog {
    async fn get(&self, infrastructure: &dyn Infrastructure) -> Result<LogReport, String> {
        let mut last = self.0.lock().await;
        if let Some((at, state)) = &*last
            && at.elapsed() < LOG_CACHED_FOR
        {
            return state.clone();
        }
        let state = tokio::time::timeout(LOG_TIMEOUT, infrastructure.log()).await;
        let state =
            state.unwrap_or_else(|_| Err(format!("no answer within {} s", LOG_TIMEOUT.as_secs())));
        *last = Some((Instant::now(), state.clone()));
        state
    }
}

/// State of the pipeline.
#[derive(Serialize, ToSchema)]
pub(crate) struct Pipeline {
    /// Time of the state.
    #[schema(value_type = String, format = DateTime)]
    at: Moment,
    /// All processes, the one that answers first. A process without heartbeats is listed for some minutes.
    processes: Vec<PipelineProcess>,
    /// The event log; `null` if it does not answer.
    log: Option<PipelineLog>,
    /// Why the log does not answer.
    log_error: Option<String>,
    /// Marks that wait for their run; `null` while unknown.
    waiting_marks: Option<PipelineMarks>,
}

/// Runs with `saved`, `unsaved` or `feedback` events of which no event of their own arrived yet. They are looked for
/// every ten seconds, and end with the retention of their project.
#[derive(Serialize, ToSchema)]
pub(crate) struct PipelineMarks {
    runs: u64,
    /// Time of the earliest of these events; `null` without any.
    #[schema(value_type = Option<String>, format = DateTime)]
    oldest_at: Option<Moment>,
}

/// A process as of its last heartbeat. Counts begin at 0 with the process and include repetitions; they are `null` for
/// work of other tiers. Heartbeats are sent every two seconds.
#[derive(Serialize, ToSchema)]
pub(crate) struct PipelineProcess {
    /// Unique for each start of the process.
    process: String,
    /// `serve`, `ingest`, `processor` or `query`.
    role: String,
    /// Version of the binary.
    version: String,
    /// Address on which it listens.
    endpoint: String,
    /// Whether it is alive and all of its parts work.
    ready: bool,
    /// Its parts that do not work.
    missing: Vec<MissingPart>,
    /// Age of the heartbeat in milliseconds; 0 for the process that answers.
    silent_ms: u64,
    /// Events that are durable in the log.
    accepted_events: Option<u64>,
    /// Events stored and committed.
    stored_events: Option<u64>,
    /// Dead-lettered events.
    dead_lettered_events: Option<u64>,
    /// Rejected events.
    rejected_events: Option<u64>,
    /// Partitions of the log in which records wait and nothing was committed for a minute, as this process sees it. Its
    /// members join the group again by themselves.
    stalled_partitions: Vec<StalledPartition>,
}

/// A partition that is stalled.
#[derive(Serialize, ToSchema)]
pub(crate) struct StalledPartition {
    /// Its number.
    partition: u32,
    /// The offset that does not move.
    committed: u64,
    /// Records that wait.
    lag_records: u64,
    /// How long it has not moved, seconds.
    seconds: u64,
    /// The member that has it; `null` when none has.
    owner: Option<String>,
    /// What the owner does, or in which state the group is.
    state: String,
}

/// A part of a process that does not work.
#[derive(Serialize, ToSchema)]
pub(crate) struct MissingPart {
    part: String,
    /// Why it does not work.
    reason: String,
}

/// The log of events.
#[derive(Serialize, ToSchema)]
pub(crate) struct PipelineLog {
    /// `kafka` or `embedded`.
    kind: &'static str,
    /// Version; `unknown` if the log does not report one.
    version: String,
    /// Number of brokers that answer.
    brokers: u64,
    /// Number of topics.
    topics: u64,
    /// Records that are not processed yet; `null` while unknown.
    lag_records: Option<u64>,
    /// Size of a bounded log.
    used_bytes: Option<u64>,
    /// Largest size of a bounded log.
    max_bytes: Option<u64>,
}

impl From<KnownProcess> for PipelineProcess {
    fn from(known: KnownProcess) -> Self {
        let ready = known.is_alive() && known.heartbeat.missing.is_empty();
        let heartbeat = known.heartbeat;
        let missing = heartbeat.missing.into_iter();
        let stalled = heartbeat.stalled.into_iter();
        Self {
            process: heartbeat.process,
            role: heartbeat.role,
            version: heartbeat.version,
            endpoint: heartbeat.endpoint,
            ready,
            missing: missing
                .map(|(part, reason)| MissingPart { part, reason })
                .collect(),
            silent_ms: known.silent_ms,
            accepted_events: heartbeat.events.accepted,
            stored_events: heartbeat.events.stored,
            dead_lettered_events: heartbeat.events.dead_lettered,
            rejected_events: heartbeat.events.rejected,
            stalled_partitions: stalled
                .map(|stalled| StalledPartition {
                    partition: stalled.partition,
                    committed: stalled.committed,
                    lag_records: stalled.lag_records,
                    seconds: stalled.seconds,
                    owner: Some(stalled.owner).filter(|owner| !owner.is_empty()),
                    state: stalled.state,
                })
                .collect(),
        }
    }
}

impl From<WaitingMarks> for PipelineMarks {
    fn from(waiting: WaitingMarks) -> Self {
        Self {
            runs: waiting.runs,
            oldest_at: waiting.oldest_ms.map(Moment),
        }
    }
}

impl From<LogReport> for PipelineLog {
    fn from(report: LogReport) -> Self {
        Self {
            kind: report.kind,
            version: report.version,
            brokers: report.brokers,
            topics: report.topics,
            lag_records: report.lag_records,
            used_bytes: report.bytes.map(|(used, _)| used),
            max_bytes: report.bytes.map(|(_, max)| max),
        }
    }
}

/// Get the state of the pipeline
///
/// Event counts of all processes, and the event log. Poll it to compute rates. Accepted events that are neither stored
/// nor dead-lettered are in flight.
#[utoipa::path(get, path = "/api/internal/pipeline", operation_id = "see_pipeline", tag = "administration",
    responses(
        (status = 200, description = "The processes and the log", body = Pipeline),
        errors::Checked,
    ),
    security(("bearer" = [])))]
pub(crate) async fn pipeline(
    State(state): State<PipelineState>,
    caller: Caller,
    pairs: Pairs,
) -> Result<([(HeaderName, &'static str); 1], Json<Pipeline>), ErrorResponse> {
    caller.operates_all()?;
    pairs.only([])?;
    let log = match state.infrastructure.get() {
        Some(infrastructure) => state.log.get(infrastructure).await,
        None => Err("this server has no access to the log".to_owned()),
    };
    let processes = state.processes.required()?.processes();
    let (log, log_error) = match log {
        Ok(report) => (Some(PipelineLog::from(report)), None),
        Err(reason) => (None, Some(reason)),
    };
    // Every process with a processor looks at the same tables.
    let alive = processes.iter().filter(|known| known.is_alive());
    let waiting = alive.filter_map(|known| Some((known.silent_ms, known.heartbeat.waiting_marks?)));
    let waiting = waiting.min_by_key(|(silent_ms, _)| *silent_ms);
    let pipeline = Pipeline {
        at: Moment(now_ms()),
        waiting_marks: waiting.map(|(_, waiting)| waiting.into()),
        processes: processes.into_iter().map(PipelineProcess::from).collect(),
        log,
        log_error,
    };
    Ok((NO_STORE, Json(pipeline)))
}
