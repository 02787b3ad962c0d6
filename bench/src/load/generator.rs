//! Connections that post one batch after the other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::{Bytes, BytesMut};
use hdrhistogram::Histogram;
use hyper::StatusCode;
use hyper::header::HeaderValue;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use serde::Deserialize;

use super::batches::{self, Batches, Moment};
use super::spans::EVENTS_PER_SPAN;
use crate::connection::{Answer, Connection, Target};

/// Pause before a broken connection is opened again.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);
/// Pause before a batch is sent again without a `Retry-After`.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Longest latency that is recorded exactly, microseconds.
const LONGEST_US: u64 = 120_000_000;

/// Counts for the progress line.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) accepted: AtomicU64,
    pub(super) refused: AtomicU64,
}

/// What the requests contain.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// Events, to `/api/report`.
    Events,
    /// Spans in protobuf, to `/v1/traces`.
    Spans,
}

impl Content {
    fn path(self) -> &'static str {
        match self {
            Self::Events => "/api/report",
            Self::Spans => "/v1/traces",
        }
    }

    fn media_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Events => "application/json",
            Self::Spans => "application/x-protobuf",
        })
    }
}

pub(super) struct Load {
    pub(super) target: Arc<Target>,
    pub(super) counters: Arc<Counters>,
    pub(super) content: Content,
    /// Events in one request, or spans.
    pub(super) batch_size: usize,
    pub(super) event_bytes: usize,
    pub(super) apps: u32,
    pub(super) connections: u16,
    /// Interval between two batches of a connection; `None` sends as soon as the response is there.
    pub(super) pause: Option<Duration>,
    pub(super) duration: Duration,
}

pub(super) struct Outcome {
    pub(super) started: Instant,
    pub(super) elapsed: Duration,
    pub(super) accepted: u64,
    pub(super) rejected: u64,
    /// Batches never answered with 200: rejected, or still without a response at the end.
    pub(super) abandoned: u64,
    pub(super) statuses: BTreeMap<u16, u64>,
    pub(super) connection_errors: u64,
    /// From sending (with a rate: from the due time) to the 200.
    pub(super) latency_us: Histogram<u64>,
    pub(super) event_bytes: usize,
}

#[derive(Deserialize)]
struct Accepted {
    accepted: u64,
    rejected: u64,
}

/// An empty histogram of microseconds.
pub(super) fn histogram() -> anyhow::Result<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, LONGEST_US, 3)?)
}

impl Load {
    /// Sends until the time is up and every batch in flight has a response.
    pub(super) async fn run(self) -> anyhow::Result<Outcome> {
        let this = Arc::new(self);
        let text = batches::text();
        let nonce = format!("{:08x}", rand::random::<u32>());
        let started = Instant::now();
        let workers: Vec<_> = (0..this.connections)
            .map(|number| {
                let stream = format!("{nonce}-{number:04x}");
                let (events, bytes, text) = (this.batch_size, this.event_bytes, Arc::clone(&text));
                let batches = match this.content {
                    Content::Events => Batches::of_events(&stream, events, bytes, text),
                    Content::Spans => {
                        Batches::of_spans(events, bytes * EVENTS_PER_SPAN as usize, text)
                    }
                };
                tokio::spawn(Arc::clone(&this).worker(number, batches, started))
            })
            .collect();
        let mut total = this.outcome(started)?;
        for worker in workers {
            let outcome = worker.await.context("a connection's task broke off")??;
            total.accepted += outcome.accepted;
            total.rejected += outcome.rejected;
            total.abandoned += outcome.abandoned;
            total.connection_errors += outcome.connection_errors;
            total.event_bytes = outcome.event_bytes;
            total.latency_us.add(&outcome.latency_us)?;
            for (status, count) in outcome.statuses {
                *total.statuses.entry(status).or_default() += count;
            }
        }
        total.elapsed = started.elapsed();
        Ok(total)
    }

    fn outcome(&self, started: Instant) -> anyhow::Result<Outcome> {
        Ok(Outcome {
            started,
            elapsed: Duration::ZERO,
            accepted: 0,
            rejected: 0,
            abandoned: 0,
            statuses: BTreeMap::new(),
            connection_errors: 0,
            latency_us: histogram()?,
            event_bytes: self.event_bytes,
        })
    }

    async fn worker(
        self: Arc<Self>,
        number: u16,
        mut batches: Batches,
        started: Instant,
    ) -> anyhow::Result<Outcome> {
        let mut outcome = self.outcome(started)?;
        outcome.event_bytes = batches.event_bytes(self.batch_size);
        let mut connection = Connection::default();
        let deadline = started + self.duration;
        // Connections take turns, so that the rate is even.
        let mut due = started
            + self
                .pause
                .unwrap_or_default()
                .mul_f64(f64::from(number) / f64::from(self.connections));
        let mut body = BytesMut::from(batches.blank().as_slice());
        let mut app = u32::from(number);
        loop {
            let sent = match self.pause {
                Some(pause) => {
                    tokio::time::sleep_until(due.into()).await;
                    let sent = due;
                    due += pause;
                    sent
                }
                None => Instant::now(),
            };
            if Instant::now() >= deadline {
                return Ok(outcome);
            }
            app = (app + 1) % self.apps;
            batches.write(
                &mut body,
                &Moment {
                    app,
                    now_ms: chrono::Utc::now().timestamp_millis(),
                },
            );
            let sending = body.freeze();
            if self
                .send_until_accepted(&mut connection, &sending, deadline, &mut outcome)
                .await?
            {
                outcome
                    .latency_us
                    .saturating_record(sent.elapsed().as_micros() as u64);
            } else {
                outcome.abandoned += 1;
            }
            // The connection has dropped the body, so it can be overwritten without an allocation.
            body = sending
                .try_into_mut()
                .unwrap_or_else(|shared| BytesMut::from(&shared[..]));
        }
    }

    /// Sends one batch until it is accepted (`true`), rejected for good, or the time is up.
    async fn send_until_accepted(
        &self,
        connection: &mut Connection,
        body: &Bytes,
        deadline: Instant,
        outcome: &mut Outcome,
    ) -> anyhow::Result<bool> {
        loop {
            let pause = match connection
                .post(
                    &self.target,
                    self.content.path(),
                    self.content.media_type(),
                    body.clone(),
                )
                .await
            {
                Ok(answer) => {
                    *outcome.statuses.entry(answer.status.as_u16()).or_default() += 1;
                    match self.classify(&answer, outcome)? {
                        Reply::Accepted => return Ok(true),
                        Reply::Rejected => return Ok(false),
                        Reply::RetryAfter(pause) => pause,
                    }
                }
                Err(error) if outcome.latency_us.is_empty() && outcome.connection_errors > 10 => {
                    return Err(error.context("the server was never reached"));
                }
                Err(_) => {
                    outcome.connection_errors += 1;
                    RECONNECT_PAUSE
                }
            };
            self.counters.refused.fetch_add(1, Ordering::Relaxed);
            if Instant::now() + pause >= deadline {
                return Ok(false);
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// What became of the events of a request that was answered with 200.
    fn counts(&self, body: &[u8]) -> anyhow::Result<Accepted> {
        if self.content == Content::Events {
            return serde_json::from_slice(body).context("an answer with no counts");
        }
        let answer = ExportTraceServiceResponse::decode(body).context("no answer of OTLP")?;
        let rejected = answer.partial_success.map_or(0, |part| part.rejected_spans);
        let rejected = u64::try_from(rejected)?;
        Ok(Accepted {
            accepted: (self.batch_size as u64 - rejected) * EVENTS_PER_SPAN,
            rejected: rejected * EVENTS_PER_SPAN,
        })
    }

    fn classify(&self, answer: &Answer, outcome: &mut Outcome) -> anyhow::Result<Reply> {
        match answer.status {
            StatusCode::OK => {
                let counts = self.counts(&answer.body)?;
                outcome.accepted += counts.accepted;
                outcome.rejected += counts.rejected;
                self.counters
                    .accepted
                    .fetch_add(counts.accepted, Ordering::Relaxed);
                Ok(Reply::Accepted)
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                Ok(Reply::RetryAfter(answer.retry_after.unwrap_or(RETRY_PAUSE)))
            }
            // These do not change during the load.
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => {
                bail!(
                    "{} answers {}: {}",
                    self.content.path(),
                    answer.status,
                    String::from_utf8_lossy(&answer.body)
                )
            }
            _ => {
                self.counters.refused.fetch_add(1, Ordering::Relaxed);
                Ok(Reply::Rejected)
            }
        }
    }
}

enum Reply {
    Accepted,
    Rejected,
    RetryAfter(Duration),
}
