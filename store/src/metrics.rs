//! The store's metrics.

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry,
};

/// Seconds: from a look-up by key to an insert of a hundred thousand rows.
const SECONDS_BUCKETS: &[f64] = &[
    0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0,
];

/// Rows of an insert: from one to a hundred thousand.
const ROWS_BUCKETS: &[f64] = &[1.0, 10.0, 100.0, 1e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5];

/// Bytes of an insert: from a row to a full block.
const BYTES_BUCKETS: &[f64] = &[1e3, 1e4, 1e5, 1e6, 4e6, 16e6, 32e6, 64e6, 128e6, 256e6];

#[derive(Clone, Debug)]
pub struct Metrics {
    pub(crate) insert_rows: IntCounterVec,
    pub(crate) insert_bytes: IntCounterVec,
    pub(crate) insert_seconds: HistogramVec,
    pub(crate) insert_block_rows: HistogramVec,
    pub(crate) insert_block_bytes: HistogramVec,
    pub(crate) insert_errors: IntCounterVec,
    pub(crate) insert_fenced: IntCounterVec,
    pub(crate) replica_up: IntGaugeVec,
    pub(crate) replica_in_use: IntGaugeVec,
    pub(crate) replica_switches: IntCounter,
    pub(crate) query_seconds: Histogram,
    pub(crate) query_errors: IntCounter,
    pub(crate) queries_active: IntGauge,
    pub(crate) engine_restarts: IntCounter,
    pub(crate) engine_up: IntGauge,
    pub(crate) lost_partitions: IntGaugeVec,
    pub(crate) credential_lookups: IntCounterVec,
    pub(crate) credential_failures: IntCounterVec,
}

impl Metrics {
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let by_table =
            |name: &str, help: &str| IntCounterVec::new(Opts::new(name, help), &["table"]);
        // At most as many as there may be replicas.
        let by_replica =
            |name: &str, help: &str| IntGaugeVec::new(Opts::new(name, help), &["replica"]);
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
            insert_block_rows: HistogramVec::new(
                HistogramOpts::new("spindle_store_insert_block_rows", "Rows of one insert")
                    .buckets(ROWS_BUCKETS.to_vec()),
                &["table"],
            )?,
            insert_block_bytes: HistogramVec::new(
                HistogramOpts::new(
                    "spindle_store_insert_block_bytes",
                    "Bytes of the rows of one insert, as sent",
                )
                .buckets(BYTES_BUCKETS.to_vec()),
                &["table"],
            )?,
            insert_fenced: by_table(
                "spindle_store_insert_fenced_total",
                "Inserts refused because they came after their deadline",
            )?,
            replica_up: by_replica(
                "spindle_store_replica_up",
                "1 while no connection to this replica fails; only where there are several",
            )?,
            replica_in_use: by_replica(
                "spindle_store_replica_in_use",
                "1 for the replica this process keeps to; only where there are several",
            )?,
            replica_switches: IntCounter::new(
                "spindle_store_replica_switches_total",
                "Times another replica was chosen because the one in use failed",
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
            lost_partitions: IntGaugeVec::new(
                Opts::new(
                    "spindle_store_lost_partitions",
                    "Partitions of tables with stored rows that are missing, and parts that were damaged and set aside, by kind",
                ),
                &["kind"],
            )?,
            credential_lookups: IntCounterVec::new(
                Opts::new(
                    "spindle_store_credential_lookups_total",
                    "Credentials looked up, by where they were found",
                ),
                &["found"],
            )?,
            credential_failures: IntCounterVec::new(
                Opts::new(
                    "spindle_store_credential_failures_total",
                    "Credentials whose look-up failed, and credentials of an address over its limit",
                ),
                &["reason"],
            )?,
        };
        for reason in ["secret", "session", "identity", "limited"] {
            metrics.credential_failures.with_label_values(&[reason]);
        }
        registry.register(Box::new(metrics.credential_failures.clone()))?;
        registry.register(Box::new(metrics.insert_rows.clone()))?;
        registry.register(Box::new(metrics.insert_bytes.clone()))?;
        registry.register(Box::new(metrics.insert_seconds.clone()))?;
        registry.register(Box::new(metrics.insert_block_rows.clone()))?;
        registry.register(Box::new(metrics.insert_block_bytes.clone()))?;
        registry.register(Box::new(metrics.insert_fenced.clone()))?;
        registry.register(Box::new(metrics.replica_up.clone()))?;
        registry.register(Box::new(metrics.replica_in_use.clone()))?;
        registry.register(Box::new(metrics.replica_switches.clone()))?;
        registry.register(Box::new(metrics.insert_errors.clone()))?;
        registry.register(Box::new(metrics.query_seconds.clone()))?;
        registry.register(Box::new(metrics.query_errors.clone()))?;
        registry.register(Box::new(metrics.queries_active.clone()))?;
        registry.register(Box::new(metrics.engine_restarts.clone()))?;
        registry.register(Box::new(metrics.engine_up.clone()))?;
        registry.register(Box::new(metrics.lost_partitions.clone()))?;
        registry.register(Box::new(metrics.credential_lookups.clone()))?;
        Ok(metrics)
    }
}
