//! The store's metrics.

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry,
};

/// Seconds: from a look-up by key to an insert of a hundred thousand rows.
const SECONDS_BUCKETS: &[f64] = &[
    0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0,
];

/// Counters and histograms of one process.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub(crate) insert_rows: IntCounterVec,
    pub(crate) insert_bytes: IntCounterVec,
    pub(crate) insert_seconds: HistogramVec,
    pub(crate) insert_errors: IntCounterVec,
    pub(crate) query_seconds: Histogram,
    pub(crate) query_errors: IntCounter,
    pub(crate) queries_active: IntGauge,
    pub(crate) engine_restarts: IntCounter,
    pub(crate) engine_up: IntGauge,
    pub(crate) credential_lookups: IntCounterVec,
}

impl Metrics {
    /// Makes and registers the metrics.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let by_table =
            |name: &str, help: &str| IntCounterVec::new(Opts::new(name, help), &["table"]);
        let seconds = |name: &str, help: &str| {
            HistogramOpts::new(name, help).buckets(SECONDS_BUCKETS.to_vec())
        };
        let metrics = Self {
            insert_rows: by_table("spindle_store_insert_rows_total", "Rows stored")?,
            insert_bytes: by_table(
                "spindle_store_insert_bytes_total",
                "Bytes of rows stored, as sent",
            )?,
            insert_seconds: HistogramVec::new(
                seconds(
                    "spindle_store_insert_seconds",
                    "Time of one insert, from the first row to the answer",
                ),
                &["table"],
            )?,
            insert_errors: by_table("spindle_store_insert_errors_total", "Inserts that failed")?,
            query_seconds: Histogram::with_opts(seconds(
                "spindle_store_query_seconds",
                "Time of one read",
            ))?,
            query_errors: IntCounter::new("spindle_store_query_errors_total", "Reads that failed")?,
            queries_active: IntGauge::new("spindle_store_queries_active", "Reads under way")?,
            engine_restarts: IntCounter::new(
                "spindle_store_engine_restarts_total",
                "Times the embedded engine was started again after it died",
            )?,
            engine_up: IntGauge::new(
                "spindle_store_engine_up",
                "1 while the embedded engine answers",
            )?,
            credential_lookups: IntCounterVec::new(
                Opts::new(
                    "spindle_store_credential_lookups_total",
                    "Credentials looked up, by where they were found",
                ),
                &["found"],
            )?,
        };
        registry.register(Box::new(metrics.insert_rows.clone()))?;
        registry.register(Box::new(metrics.insert_bytes.clone()))?;
        registry.register(Box::new(metrics.insert_seconds.clone()))?;
        registry.register(Box::new(metrics.insert_errors.clone()))?;
        registry.register(Box::new(metrics.query_seconds.clone()))?;
        registry.register(Box::new(metrics.query_errors.clone()))?;
        registry.register(Box::new(metrics.queries_active.clone()))?;
        registry.register(Box::new(metrics.engine_restarts.clone()))?;
        registry.register(Box::new(metrics.engine_up.clone()))?;
        registry.register(Box::new(metrics.credential_lookups.clone()))?;
        Ok(metrics)
    }
}
