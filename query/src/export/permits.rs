//! Permits for concurrent exports, and metrics.

use prometheus::{IntCounterVec, IntGauge, Opts, Registry};
use schemas::api_error::ApiError;
use store::shares::{Share, ShareBounds, Shares};

use crate::access::Caller;
use crate::error::no_permit;

/// Concurrent exports: each holds tens of megabytes and uses all cores of the engine (X1). One project can have three of
/// them, one credential two.
const EXPORTS_AT_ONCE: usize = 6;
/// Seconds after which a client can retry.
const BUSY_RETRY_S: u32 = 15;

/// Label values: the formats, the report of `check=true`, and the items of a dataset.
const FORMATS: [&str; 6] = ["jsonl", "openai-jsonl", "csv", "parquet", "check", "items"];

#[derive(Clone)]
pub(crate) struct Exports {
    shares: Shares,
    active: IntGauge,
    ended: IntCounterVec,
    rows: IntCounterVec,
}

impl Exports {
    pub(crate) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let active = IntGauge::new("spindle_query_exports_active", "Running exports")?;
        let ended = IntCounterVec::new(
            Opts::new(
                "spindle_query_exports_total",
                "Exports by outcome: complete, dropped by the client, or failed",
            ),
            &["outcome"],
        )?;
        let rows = IntCounterVec::new(
            Opts::new(
                "spindle_query_exported_runs_total",
                "Runs read for exports, by format",
            ),
            &["format"],
        )?;
        // Every series exists from the start, at zero.
        for outcome in ["complete", "dropped", "failed"] {
            ended.with_label_values(&[outcome]);
        }
        for format in FORMATS {
            rows.with_label_values(&[format]);
        }
        registry.register(Box::new(active.clone()))?;
        registry.register(Box::new(ended.clone()))?;
        registry.register(Box::new(rows.clone()))?;
        Ok(Self {
            shares: Shares::new(ShareBounds::halves(EXPORTS_AT_ONCE, 0)),
            active,
            ended,
            rows,
        })
    }

    /// # Errors
    /// 429 when the caller's share is used up, 503 when all permits are.
    pub(crate) fn acquire(
        &self,
        caller: &Caller,
        format: &'static str,
    ) -> Result<ExportPermit, ApiError> {
        let share = self.shares.take_now(&caller.holder());
        let share = share.map_err(|full| no_permit(full, "exports", BUSY_RETRY_S))?;
        self.active.inc();
        Ok(ExportPermit {
            exports: self.clone(),
            format,
            outcome: "dropped",
            share: Some(share),
        })
    }
}

/// A running export. Dropped before [`ExportPermit::complete`] and [`ExportPermit::failed`] it counts as dropped by the
/// client.
pub(crate) struct ExportPermit {
    exports: Exports,
    format: &'static str,
    outcome: &'static str,
    /// Until it is complete.
    share: Option<Share>,
}

impl ExportPermit {
    /// Counts runs that were read.
    pub(crate) fn read(&self, runs: usize) {
        let rows = &self.exports.rows;
        rows.with_label_values(&[self.format]).inc_by(runs as u64);
    }

    /// Everything is read: another export may begin.
    pub(crate) fn complete(&mut self) {
        self.outcome = "complete";
        self.share = None;
    }

    pub(crate) fn failed(&mut self) {
        self.outcome = "failed";
    }
}

impl Drop for ExportPermit {
    fn drop(&mut self) {
        self.exports.active.dec();
        let outcome = match std::thread::panicking() {
            true => "failed",
            false => self.outcome,
        };
        let ended = &self.exports.ended;
        ended.with_label_values(&[outcome]).inc();
    }
}
