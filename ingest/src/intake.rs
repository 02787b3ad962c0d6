//! From the head of a request to events in the log, for every format: authenticates, reads the body within its bounds,
//! checks each event, and appends the accepted ones.

use std::sync::Arc;
use std::time::Duration;

use api::{AuthHeader, request_body};
use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::request::Parts as Head;
use bytes::Bytes;
use schemas::api_error::{ApiError, ErrorCode};
use schemas::limits;
use schemas::start::Start;

use crate::auth::{self, Reporter};
use crate::body::{Bounds, Received};
use crate::days::DayBounds;
use crate::named_keys::NamedKeys;
use crate::outcome::{Rejections, Report};
use crate::plan::{self, Apps, Plan};
use crate::rate::Rates;
use crate::run_apps::Placing;
use crate::state::Parts;

/// Bodies up to this size are parsed on the thread that serves connections: about a millisecond of work. Larger ones go
/// to a blocking thread, which costs some 20 µs, so that they do not delay other requests.
const INLINE_BODY_BYTES: usize = 1 << 20;

/// A format of events; implemented beside the format's handlers.
pub(crate) trait Format: Sync {
    type Content: Content;

    /// Checks the headers and reads the body within the bounds.
    ///
    /// # Errors
    /// 408, 413 and 503 of the body; 415 for another media type or encoding.
    fn receive(
        &self,
        headers: &HeaderMap,
        body: &mut Body,
        bounds: Bounds,
    ) -> impl Future<Output = Result<(Received, Self::Content), ApiError>> + Send;
}

pub(crate) trait Content: Send + 'static {
    /// Bodies up to this size are parsed on the thread that serves connections.
    const INLINE_BYTES: usize;
    /// Whether an event can name an API key as its app.
    const CAN_NAME_KEYS: bool;
    /// Rejected events whose reasons are kept.
    const REPORTED: usize = limits::REPORTED_ERRORS;

    /// Decodes a body that was read at `now_ms`, Unix milliseconds.
    ///
    /// # Errors
    /// When the body as a whole is not of this format, or there is no memory for its events.
    fn decode(self, received: Received, now_ms: i64) -> Result<Decoded, ApiError>;
}

/// `{"events": [...]}`, and the rejections of items that yielded no events.
pub(crate) struct Decoded {
    pub(crate) received: Received,
    pub(crate) refused: Rejections,
    /// Whether the body is `text/plain`, which only clients of the llmonitor dialect send.
    pub(crate) is_text: bool,
}

/// `{"events": [...]}` as the client sent it.
pub(crate) struct Events {
    pub(crate) is_text: bool,
}

impl Content for Events {
    const INLINE_BYTES: usize = INLINE_BODY_BYTES;
    const CAN_NAME_KEYS: bool = true;

    fn decode(self, received: Received, _now_ms: i64) -> Result<Decoded, ApiError> {
        Ok(Decoded {
            received,
            refused: Rejections::default(),
            is_text: self.is_text,
        })
    }
}

/// The outcome of a batch in the log.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) report: Report,
    /// Spans and records that yielded no events; each is in the report too.
    pub(crate) refused: usize,
}

/// Takes a batch: returns when every accepted event is durable (L1). After an error the rest of the body may be unread.
pub(crate) async fn accept<F: Format>(
    parts: &Arc<Parts>,
    head: &Head,
    body: &mut Body,
    format: &F,
) -> Result<Taken, ApiError> {
    match AuthHeader::read(&head.headers) {
        Some(header) => {
            let client = auth::client(head);
            let (credential, secret) =
                auth::authenticate(&*parts.auth, header.secrets(), client).await?;
            let reporter = auth::reporter(&credential)?;
            let own = NamedKeys::presented(secret, &reporter);
            let limit = parts.config.body_bytes;
            let (received, content) = receive(parts, head, body, format, limit).await?;
            let keys = match F::Content::CAN_NAME_KEYS {
                true => {
                    own.look_up(&*parts.auth, client, &received.bytes, &reporter)
                        .await?
                }
                false => own,
            };
            let placing = Placing::new(&reporter.project, &parts.run_apps);
            let apps = Apps::OfRunOr(reporter.default_app.clone(), keys, placing);
            let batch = Batch::read(received, content, apps, parts.config.max_event_age).await?;
            let refused = batch.refused.count;
            let report = batch
                .append(parts, reporter, parts.key_rates.as_ref())
                .await?;
            Ok(Taken { report, refused })
        }
        None if !parts.auth.keyless_possible() => Err(auth::missing()),
        None => {
            let limit = parts.config.keyless_body_bytes;
            let (received, content) = receive(parts, head, body, format, limit).await?;
            let max_age = parts.config.max_event_age;
            let batch = Batch::read(received, content, Apps::OnlyFirst, max_age).await?;
            let refused = batch.refused.count;
            let app = batch
                .plan
                .payloads
                .first()
                .map(|payload| payload.app.clone())
                .ok_or_else(auth::missing)?;
            let credential = parts
                .auth
                .keyless(app.as_str())
                .await
                .map_err(auth::unavailable)?;
            let reporter = auth::reporter(&*credential.ok_or_else(auth::missing)?)?;
            // Events without a key have a separate rate limit per app, apart from the limits of the project's keys.
            let reporter = Reporter {
                key_id: format!("{}/{app}", reporter.project),
                ..reporter
            };
            let report = batch
                .append(parts, reporter, parts.keyless_rates.as_ref())
                .await?;
            Ok(Taken { report, refused })
        }
    }
}

async fn receive<F: Format>(
    parts: &Parts,
    head: &Head,
    body: &mut Body,
    format: &F,
    limit: usize,
) -> Result<(Received, F::Content), ApiError> {
    without_parameters(head.uri.query())?;
    let bounds = Bounds {
        bytes: limit,
        timeout: parts.config.body_timeout,
        in_flight: Arc::clone(&parts.in_flight),
    };
    let (received, content) = format.receive(&head.headers, body, bounds).await?;
    parts.metrics.body_bytes.inc_by(received.bytes.len() as u64);
    Ok((received, content))
}

/// The endpoint has no query parameters, so any parameter is a mistake.
pub(crate) fn without_parameters(query: Option<&str>) -> Result<(), ApiError> {
    let names: Vec<&str> = query
        .into_iter()
        .flat_map(|query| query.split('&'))
        .filter_map(|pair| pair.split('=').next())
        .filter(|name| !name.is_empty())
        .collect();
    if names.is_empty() {
        return Ok(());
    }
    let message = format!("unknown query parameter: `{}`", names.join("`, `"));
    Err(ApiError::new(ErrorCode::UnknownParameter, message)
        .with_details(serde_json::json!({"parameters": names})))
}

/// A body, with the time when it was read.
pub(crate) struct Batch {
    plan: Plan,
    /// Items rejected before there were events.
    refused: Rejections,
    now_ms: i64,
    /// Held until the events are in the log, because the body is in memory until then.
    reservation: crate::in_flight::Reservation,
}

impl Batch {
    pub(crate) async fn read<C: Content>(
        received: Received,
        content: C,
        apps: Apps,
        max_age: Duration,
    ) -> Result<Self, ApiError> {
        let bounds = DayBounds::new(chrono::Utc::now().timestamp_millis(), max_age);
        let is_short = received.bytes.len() <= C::INLINE_BYTES;
        let first = apps.clone();
        let (mut batch, bytes) = computing(is_short, move || {
            Self::read_now(received, content, &first, bounds)
        })
        .await?;
        if let Apps::OfRunOr(app, keys, placing) = apps
            && let Some(placing) = placing.looked_up(&app, &batch.plan.unplaced).await
        {
            let apps = Apps::OfRunOr(app, keys, placing);
            batch.plan = computing(is_short, move || {
                plan::plan(bytes, &apps, &bounds, C::REPORTED)
            })
            .await?;
        }
        Ok(batch)
    }

    fn read_now<C: Content>(
        received: Received,
        content: C,
        apps: &Apps,
        bounds: DayBounds,
    ) -> Result<(Self, Bytes), ApiError> {
        let now_ms = bounds.now_ms;
        let Decoded {
            received,
            refused,
            is_text,
        } = content.decode(received, now_ms)?;
        let plan = plan::plan(received.bytes.clone(), apps, &bounds, C::REPORTED);
        if is_text && !plan.as_ref().is_ok_and(|plan| plan.has_llmonitor) {
            return Err(request_body::unsupported_media_type());
        }
        let batch = Self {
            plan: plan?,
            refused,
            now_ms,
            reservation: received.reservation,
        };
        Ok((batch, received.bytes))
    }

    /// Attaches a process start to the first record.
    pub(crate) fn carry(&mut self, start: Start) {
        if let Some(payload) = self.plan.payloads.first_mut() {
            payload.start = Some(Box::new(start));
        }
    }

    pub(crate) async fn append(
        self,
        parts: &Arc<Parts>,
        reporter: Reporter,
        rates: Option<&Rates>,
    ) -> Result<Report, ApiError> {
        let Self {
            plan,
            refused,
            now_ms,
            reservation,
        } = self;
        let Plan {
            payloads,
            accepted,
            rejections,
            warnings,
            old_days,
            has_llmonitor: _,
            unplaced: _,
        } = plan;
        let rejections = refused.and(rejections);
        if let Some(rates) = rates {
            rates.take(&reporter.key_id, accepted + rejections.count)?;
        }
        if let Some(rates) = &parts.old_days {
            rates.take(reporter.project.as_str(), &old_days)?;
        }
        let project = reporter.project.clone();
        let by_project: Vec<_> = payloads
            .iter()
            .map(|payload| {
                let project = payload.project.as_ref().unwrap_or(&project).clone();
                (project, u64::from(payload.events))
            })
            .collect();
        if !payloads.is_empty() {
            // A separate task: a client that disconnects now does not stop an append half-way, uncounted.
            let appender = Arc::clone(&parts.appender);
            let append = tokio::spawn(async move {
                let result = appender.append(&reporter.project, payloads, now_ms).await;
                drop(reservation);
                result
            });
            append.await.map_err(|error| broken_off(&error))??;
        }
        for (project, events) in by_project {
            parts.metrics.accepted.add(&project, events);
        }
        for (code, count) in &rejections.by_code {
            parts.metrics.rejected(code.as_str(), *count);
        }
        Ok(Report {
            accepted,
            rejected: rejections.count,
            errors: rejections.reported,
            warnings,
        })
    }
}

/// Does the work of a short body here, and of a longer one on a blocking thread.
async fn computing<T: Send + 'static>(
    is_short: bool,
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    if is_short {
        return work();
    }
    let work = tokio::task::spawn_blocking(work);
    work.await.unwrap_or_else(|error| Err(broken_off(&error)))
}

/// The task panicked, or ended with the process.
fn broken_off(error: &tokio::task::JoinError) -> ApiError {
    if error.is_panic() {
        tracing::error!("a report could not be worked on; this is a fault in the program");
        return ApiError::internal();
    }
    ApiError::unavailable("the server is going down; send the batch again", 1)
}
