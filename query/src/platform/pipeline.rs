//! How events come through: every process with what it counted, and the log between them.

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::http::HeaderName;
use axum::http::header::CACHE_CONTROL;
use schemas::run::Instant as Moment;
use serde::Serialize;
use tokio::sync::Mutex;
use utoipa::ToSchema;

use crate::access::Caller;
use crate::error::{FaultBody, Refusal};
use crate::params::Pairs;
use crate::platform::{Heard, Infrastructure, LogReport};
use crate::state::{QueryState, now_ms};

/// How long what the log said is good: everybody who looks asks every two seconds, and the log is asked once (X1).
const LOOK_LIFE: Duration = Duration::from_secs(1);
/// How long the log may take; longer, and it is told that it does not answer.
const LOOK_WITHIN: Duration = Duration::from_secs(5);
/// What is true of one moment is kept by nobody.
const NOT_KEPT: [(HeaderName, &str); 1] = [(CACHE_CONTROL, "no-store")];

/// What the log said last, and when. Held while it is asked, so one question is under way.
#[derive(Default)]
pub(crate) struct LogLook(Mutex<Option<(Instant, Result<LogReport, String>)>>);

impl LogLook {
    /// What the log says, or said just now.
    async fn look(&self, infrastructure: &dyn Infrastructure) -> Result<LogReport, String> {
        let mut last = self.0.lock().await;
        if let Some((at, said)) = &*last
            && at.elapsed() < LOOK_LIFE
        {
            return said.clone();
        }
        let asked = tokio::time::timeout(LOOK_WITHIN, infrastructure.log()).await;
        let said = asked.unwrap_or_else(|_| Err("it does not answer in time".to_owned()));
        *last = Some((Instant::now(), said.clone()));
        said
    }
}

/// How events come through.
#[derive(Serialize, ToSchema)]
pub(crate) struct Pipeline {
    /// When this was so.
    #[schema(value_type = String, format = DateTime)]
    at: Moment,
    /// Every process, the one that was asked first. One that fell silent stays for some minutes.
    processes: Vec<PipelineProcess>,
    /// The log between them; `null` where it does not answer.
    log: Option<PipelineLog>,
    /// Why the log does not answer.
    log_error: Option<String>,
}

/// A process, in its own words. Counts are since its start, repetitions included, and `null` of what it does not do;
/// other processes say theirs every two seconds.
#[derive(Serialize, ToSchema)]
pub(crate) struct PipelineProcess {
    /// Names the process, anew at each start.
    process: String,
    /// `serve`, `ingest`, `processor` or `query`.
    role: String,
    /// Of the binary.
    version: String,
    /// Where it listens.
    endpoint: String,
    /// Whether it is there and lacks nothing.
    ready: bool,
    /// Its parts that do not work.
    missing: Vec<MissingPart>,
    /// How long ago it said this, milliseconds; 0 for the one that was asked.
    silent_ms: u64,
    /// Events durable in the log.
    accepted_events: Option<u64>,
    /// Events stored and committed.
    stored_events: Option<u64>,
    /// Events put into the dead letters.
    dead_lettered_events: Option<u64>,
    /// Events rejected one by one.
    rejected_events: Option<u64>,
}

/// A part of a process that does not work.
#[derive(Serialize, ToSchema)]
pub(crate) struct MissingPart {
    /// Its name.
    part: String,
    /// Why not.
    reason: String,
}

/// The log of events.
#[derive(Serialize, ToSchema)]
pub(crate) struct PipelineLog {
    /// `kafka` or `embedded`.
    kind: &'static str,
    /// Its version, `unknown` where it does not tell.
    version: String,
    /// Brokers that answer for it.
    brokers: u64,
    /// Topics there are.
    topics: u64,
    /// Records that wait to be processed; `null` where nobody knows now.
    lag_records: Option<u64>,
    /// Bytes it holds, where it is bounded.
    used_bytes: Option<u64>,
    /// Bytes it may hold, where it is bounded.
    max_bytes: Option<u64>,
}

impl From<Heard> for PipelineProcess {
    fn from(heard: Heard) -> Self {
        let ready = heard.is_there() && heard.present.missing.is_empty();
        let present = heard.present;
        let missing = present.missing.into_iter();
        Self {
            process: present.process,
            role: present.role,
            version: present.version,
            endpoint: present.endpoint,
            ready,
            missing: missing
                .map(|(part, reason)| MissingPart { part, reason })
                .collect(),
            silent_ms: heard.silent_ms,
            accepted_events: present.events.accepted,
            stored_events: present.events.stored,
            dead_lettered_events: present.events.dead_lettered,
            rejected_events: present.events.rejected,
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

/// See how events come through
///
/// Every process with what it counted, and the log between them. Ask again to see rates: what was accepted and is
/// neither stored nor in the dead letters is under way. Counts begin anew with each process.
#[utoipa::path(get, path = "/api/internal/pipeline", operation_id = "see_pipeline", tag = "administration",
    responses(
        (status = 200, description = "The processes and the log", body = Pipeline),
        (status = 400, description = "An unknown parameter", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "Not a token with the role `operator` or `admin`, or one limited to projects", body = FaultBody),
        (status = 503, description = "The credential cannot be checked now", body = FaultBody, headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = [])))]
pub(crate) async fn pipeline(
    State(state): State<QueryState>,
    caller: Caller,
    pairs: Pairs,
) -> Result<([(HeaderName, &'static str); 1], Json<Pipeline>), Refusal> {
    caller.operates_all()?;
    pairs.only([])?;
    let log = match state.infrastructure() {
        Some(infrastructure) => state.log_look().look(infrastructure).await,
        None => Err("this server knows nothing of the log".to_owned()),
    };
    let processes = state.processes()?.processes();
    let (log, log_error) = match log {
        Ok(report) => (Some(PipelineLog::from(report)), None),
        Err(reason) => (None, Some(reason)),
    };
    let pipeline = Pipeline {
        at: Moment(now_ms()),
        processes: processes.into_iter().map(PipelineProcess::from).collect(),
        log,
        log_error,
    };
    Ok((NOT_KEPT, Json(pipeline)))
}
