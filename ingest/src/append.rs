//! From payloads to durable records (L1).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use eventlog::{Log, LogError, Record};
use futures::future::join_all;
use schemas::api_error::ApiError;
use schemas::ids::ProjectId;
use schemas::record::{OLD_DAYS_HEADER, RecordHeader};
use schemas::start;

use crate::metrics::Metrics;
use crate::plan::Payload;

/// Records of one request that are appended concurrently: enough to share a sync of the disk (X1).
const APPENDS_AT_ONCE: usize = 64;
/// `Retry-After` when the log is full or away, in seconds.
const LOG_RETRY_S: u32 = 5;

pub(crate) struct Appender {
    log: Arc<dyn Log>,
    metrics: Metrics,
    /// Whether the last append failed: an unavailable log is logged once, not at each request.
    is_failing: AtomicBool,
}

impl Appender {
    pub(crate) fn new(log: Arc<dyn Log>, metrics: Metrics) -> Self {
        Self {
            log,
            metrics,
            is_failing: AtomicBool::new(false),
        }
    }

    /// `Ok` when all payloads are durable (L1). After an error some may be: the client sends the batch again, and the
    /// events' identities make that harmless.
    pub(crate) async fn append(
        &self,
        project: &ProjectId,
        payloads: Vec<Payload>,
        now_ms: i64,
    ) -> Result<(), ApiError> {
        let mut rest = payloads.into_iter();
        loop {
            // Each append begins after the one before it, so that records of one key stay in order (L2), and every
            // append that began is awaited: a dropped one might be in the log without being counted.
            let begun = rest
                .by_ref()
                .take(APPENDS_AT_ONCE)
                .map(|payload| self.append_one(project, payload, now_ms));
            let results = join_all(begun).await;
            if results.is_empty() {
                self.tell_recovery();
                return Ok(());
            }
            // No further appends to a log that is full or away.
            if let Some(error) = results.into_iter().find_map(Result::err) {
                self.tell_failure(&error);
                return Err(fault(&error));
            }
        }
    }

    async fn append_one(
        &self,
        project: &ProjectId,
        payload: Payload,
        now_ms: i64,
    ) -> Result<(), LogError> {
        let Payload {
            project: named,
            app,
            events,
            old_days,
            bytes,
            start,
        } = payload;
        let project = named.as_ref().unwrap_or(project);
        let header = RecordHeader {
            project: project.clone(),
            app,
            received_at_ms: now_ms,
            events,
        };
        let mut headers = header.encode();
        if !old_days.is_empty() {
            let days: Vec<String> = old_days.iter().map(i64::to_string).collect();
            headers.push((OLD_DAYS_HEADER.to_owned(), days.join(",").into_bytes()));
        }
        if let Some(start) = start {
            let start = start.encode().map_err(|error| {
                LogError::Settings(format!("the start of a process cannot be written: {error}"))
            })?;
            headers.push((start::HEADER.to_owned(), start));
        }
        let headers = headers.into_iter();
        let record = Record {
            key: Bytes::from(header.key()),
            headers: headers
                .map(|(name, value)| (name, Bytes::from(value)))
                .collect(),
            payload: bytes,
        };
        self.log.append(record).await?;
        self.metrics.records.inc();
        self.metrics.appended.add(project, u64::from(events));
        Ok(())
    }

    fn tell_failure(&self, error: &LogError) {
        self.metrics.append_failures.inc();
        if !self.is_failing.swap(true, Ordering::Relaxed) {
            if error.is_retryable() || matches!(error, LogError::Closed) {
                tracing::warn!(%error, "the event log takes no records; clients are asked to send again");
            } else {
                tracing::error!(%error, "the event log refused a record");
            }
        }
    }

    fn tell_recovery(&self) {
        if self.is_failing.load(Ordering::Relaxed) && self.is_failing.swap(false, Ordering::Relaxed)
        {
            tracing::info!("the event log takes records again");
        }
    }
}

fn fault(error: &LogError) -> ApiError {
    match error {
        LogError::Full(_) => {
            ApiError::unavailable("the event log is full; send the batch again", LOG_RETRY_S)
        }
        LogError::Unavailable(_) | LogError::Closed => {
            ApiError::unavailable("the event log is away; send the batch again", LOG_RETRY_S)
        }
        LogError::TooLarge { .. }
        | LogError::NotAssigned(_)
        | LogError::Damaged(_)
        | LogError::Settings(_) => ApiError::internal(),
    }
}
