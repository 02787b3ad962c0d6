//! From the head of a request to events in the log, in whatever format they come: who reports, the body within its
//! bounds, each event checked, the good ones appended.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::request::Parts as Head;
use schemas::fault::Fault;
use schemas::start::Start;

use crate::auth::{self, Presented, Reporter};
use crate::body::{self, Bounds, Encoding, Received};
use crate::days::DayBounds;
use crate::named_keys::NamedKeys;
use crate::otlp::{Room, Signal, Wire, grpc};
use crate::plan::{self, Apps, Plan, Rejections};
use crate::rate::Rates;
use crate::report::Report;
use crate::state::Parts;

/// Bodies up to this size are read on the thread that serves connections: about a millisecond of work. Larger ones
/// go to a thread of their own, which costs some 20 µs, so that they hold up nobody else.
const INLINE_BODY_BYTES: usize = 1 << 20;
/// The same for bodies that are translated first, which takes several times as long.
const INLINE_OTLP_BYTES: usize = 128 << 10;
/// Bytes of the events that a body is translated to, as a multiple of the limit of a body. Spans as clients send them
/// take about twice their bytes, empty ones twenty times.
const TRANSLATED_LIMITS: usize = 4;

/// How the events stand in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// `{"events": [...]}`.
    Report,
    /// An export of OpenTelemetry.
    Otlp(Signal),
    /// The same in a message of gRPC.
    Grpc(Signal),
}

/// A batch in the log, and what of it was none.
#[derive(Debug)]
pub(crate) struct Taken {
    /// The events.
    pub(crate) report: Report,
    /// Spans and records that no events could be made of; in the report too, one for each.
    pub(crate) refused: usize,
}

/// Takes a batch: an answer follows when every good event is durable (L1). After an error the rest of the body may be
/// unread.
pub(crate) async fn accept(
    parts: &Arc<Parts>,
    head: &Head,
    body: &mut Body,
    format: Format,
) -> Result<Taken, Fault> {
    match auth::presented(&head.headers) {
        Presented::Secrets(secrets) => {
            let client = auth::client(head);
            let (credential, secret) = auth::authenticate(&*parts.auth, &secrets, client).await?;
            let reporter = auth::reporter(&credential)?;
            let own = NamedKeys::presented(secret, &reporter);
            let limit = parts.config.body_bytes;
            let (received, form) = receive(parts, head, body, format, limit).await?;
            let keys = match form {
                Form::Events => {
                    own.look_up((&*parts.auth, client), &received.bytes, &reporter)
                        .await?
                }
                Form::Otlp { .. } => own,
            };
            let apps = Apps::AnyOr(reporter.default_app.clone(), keys);
            let batch = Batch::read(received, form, apps, parts.config.max_event_age).await?;
            let refused = batch.refused.count;
            let report = batch
                .append(parts, reporter, parts.key_rates.as_ref())
                .await?;
            Ok(Taken { report, refused })
        }
        Presented::Nothing if !parts.auth.keyless_possible() => Err(auth::missing()),
        Presented::Nothing => {
            let limit = parts.config.keyless_body_bytes;
            let (received, form) = receive(parts, head, body, format, limit).await?;
            let max_age = parts.config.max_event_age;
            let batch = Batch::read(received, form, Apps::OnlyFirst, max_age).await?;
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
            // The rate of what comes without a key is the app's own: nobody uses up that of the project's keys.
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

async fn receive(
    parts: &Parts,
    head: &Head,
    body: &mut Body,
    format: Format,
    limit: usize,
) -> Result<(Received, Form), Fault> {
    without_parameters(head.uri.query())?;
    let bounds = Bounds {
        bytes: limit,
        timeout: parts.config.body_timeout,
        in_flight: Arc::clone(&parts.in_flight),
    };
    let translated = |signal, wire| Form::Otlp {
        signal,
        wire,
        limit: limit.saturating_mul(TRANSLATED_LIMITS),
    };
    let headers = &head.headers;
    let (received, form) = match format {
        Format::Report => {
            body::json_type(headers)?;
            let received = body::read(body, body::encoding(headers)?, bounds).await?;
            (received, Form::Events)
        }
        Format::Otlp(signal) => {
            let wire = Wire::of(headers)?;
            let received = body::read(body, body::encoding(headers)?, bounds).await?;
            (received, translated(signal, wire))
        }
        Format::Grpc(signal) => {
            grpc::check(headers)?;
            let framed = Bounds {
                bytes: limit.saturating_add(grpc::HEAD_BYTES),
                ..bounds.clone()
            };
            let framed = body::read(body, Encoding::Identity, framed).await?;
            let (message, encoding) = grpc::message(framed.bytes, headers)?;
            // It is the message that may be compressed, not the body.
            let received = body::read(&mut Body::from(message), encoding, bounds).await?;
            (received, translated(signal, Wire::Protobuf))
        }
    };
    parts.metrics.body_bytes.inc_by(received.bytes.len() as u64);
    Ok((received, form))
}

/// There are no query parameters here, so each one is a misunderstanding.
fn without_parameters(query: Option<&str>) -> Result<(), Fault> {
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
    Err(Fault::bad_request("unknown_parameter", message)
        .with_details(serde_json::json!({"parameters": names})))
}

/// What a body that was read is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// `{"events": [...]}`.
    Events,
    /// To be translated, into at most so many bytes.
    Otlp {
        signal: Signal,
        wire: Wire,
        limit: usize,
    },
}

/// A body that was read, with the moment it was.
pub(crate) struct Batch {
    plan: Plan,
    /// What was refused before there were events.
    refused: Rejections,
    now_ms: i64,
    /// Held until the events are in the log: so long the body is in memory.
    reservation: crate::in_flight::Reservation,
}

impl Batch {
    pub(crate) async fn read(
        received: Received,
        form: Form,
        apps: Apps,
        max_age: Duration,
    ) -> Result<Self, Fault> {
        let bounds = DayBounds::new(chrono::Utc::now().timestamp_millis(), max_age);
        let inline_bytes = match form {
            Form::Events => INLINE_BODY_BYTES,
            Form::Otlp { .. } => INLINE_OTLP_BYTES,
        };
        if received.bytes.len() <= inline_bytes {
            return Self::read_now(received, form, &apps, bounds);
        }
        let read =
            tokio::task::spawn_blocking(move || Self::read_now(received, form, &apps, bounds));
        read.await.unwrap_or_else(|error| Err(broken_off(&error)))
    }

    fn read_now(
        received: Received,
        form: Form,
        apps: &Apps,
        bounds: DayBounds,
    ) -> Result<Self, Fault> {
        let now_ms = bounds.now_ms;
        let Received {
            bytes,
            mut reservation,
        } = received;
        let (events, refused) = match form {
            Form::Events => (bytes, Rejections::default()),
            Form::Otlp {
                signal,
                wire,
                limit,
            } => {
                let mut decoded = reservation.beside();
                let most = reservation.most_of_item();
                let room = Room::new(|bytes| decoded.grow(bytes), most);
                let translation = signal.translate(wire, &bytes, (now_ms, limit), room)?;
                drop(decoded);
                let more = translation.events.len().saturating_sub(bytes.len());
                if !reservation.may_grow(more) {
                    return Err(body::too_large(limit));
                }
                if !reservation.grow(more) {
                    return Err(body::no_memory());
                }
                (translation.events, translation.rejections)
            }
        };
        Ok(Self {
            plan: plan::plan(events, apps, &bounds)?,
            refused,
            now_ms,
            reservation,
        })
    }

    /// The first record carries this start as well.
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
    ) -> Result<Report, Fault> {
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
            old_days,
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
            // A task of its own: a client that leaves now does not stop an append half-way, uncounted.
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
            parts.metrics.rejected(code, *count);
        }
        Ok(Report {
            accepted,
            rejected: rejections.count,
            errors: rejections.reported,
        })
    }
}

/// A task that panicked, or that was ended with the process.
fn broken_off(error: &tokio::task::JoinError) -> Fault {
    if error.is_panic() {
        tracing::error!("a report could not be worked on; this is a fault in the program");
        return Fault::internal();
    }
    Fault::unavailable("the server is going down; send the batch again", 1)
}
