//! How many exports run at once, and how they ended.

use prometheus::{IntCounterVec, IntGauge, Opts, Registry};
use schemas::fault::Fault;
use store::shares::{Share, ShareBounds, Shares};

use crate::access::Caller;
use crate::error::no_permit;

/// Exports at once: each holds tens of megabytes and asks the engine for all it can give (X1). Three of them may be of
/// one project, and two of one credential.
const EXPORTS_AT_ONCE: usize = 6;
/// Seconds after which a client may ask again when all are taken.
const BUSY_RETRY_S: u32 = 15;

/// What is read for: the formats, the report on one, and the items of a dataset.
const FORMATS: [&str; 6] = ["jsonl", "openai-jsonl", "csv", "parquet", "check", "items"];

/// The places for exports, and their counters.
#[derive(Clone)]
pub(crate) struct Exports {
    shares: Shares,
    active: IntGauge,
    ended: IntCounterVec,
    rows: IntCounterVec,
}

impl Exports {
    /// Registers the metrics.
    pub(crate) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let active = IntGauge::new("spindle_query_exports_active", "Exports under way")?;
        let ended = IntCounterVec::new(
            Opts::new(
                "spindle_query_exports_total",
                "Exports that ended, by how: complete, dropped by the client, or failed",
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
        // All of them are there from the beginning, at zero.
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

    /// A place for the caller.
    ///
    /// # Errors
    /// 429 where the caller's share is used up, 503 where all are taken.
    pub(crate) fn take(&self, caller: &Caller, format: &'static str) -> Result<Place, Fault> {
        let share = self.shares.take_now(&caller.holder());
        let share = share.map_err(|full| no_permit(full, "exports", BUSY_RETRY_S))?;
        self.active.inc();
        Ok(Place {
            exports: self.clone(),
            format,
            outcome: "dropped",
            _share: share,
        })
    }
}

/// One export under way. Dropped without a word it counts as one whose client left.
pub(crate) struct Place {
    exports: Exports,
    format: &'static str,
    outcome: &'static str,
    _share: Share,
}

impl Place {
    /// So many more runs were read.
    pub(crate) fn read(&self, runs: usize) {
        let rows = &self.exports.rows;
        rows.with_label_values(&[self.format]).inc_by(runs as u64);
    }

    /// Everything was handed over.
    pub(crate) fn complete(&mut self) {
        self.outcome = "complete";
    }

    /// It broke.
    pub(crate) fn failed(&mut self) {
        self.outcome = "failed";
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.exports.active.dec();
        let ended = &self.exports.ended;
        ended.with_label_values(&[self.outcome]).inc();
    }
}
