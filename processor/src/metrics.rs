//! What the processor counts.

use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry};

/// The processor's metrics.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Accepted events whose rows are stored and committed, repetitions included (P4).
    pub stored_events: IntCounter,
    /// Accepted events that went to the dead letters instead (P4).
    pub dead_lettered_events: IntCounter,
    /// Rows written to `runs`, tombstones included.
    pub run_rows: IntCounter,
    /// Micro-batches, by events.
    pub batch_events: Histogram,
    /// From the first record of a micro-batch in hand to its commit.
    pub batch_seconds: Histogram,
    /// Time spent decoding and folding.
    pub fold_seconds: Histogram,
    /// Where the state of a touched run came from: `hot`, `cold` (the table) or `new`.
    pub runs_touched: IntCounterVec,
    /// Tries that failed because the store was away or overloaded.
    pub store_retries: IntCounter,
    /// Steps whose partitions went to another member before they were stored.
    pub lost_steps: IntCounter,
    /// Inserts that were refused because they came after the lease.
    pub fenced_inserts: IntCounter,
    /// Records appended and not yet committed.
    pub lag_records: IntGauge,
    /// Memory of the hot runs.
    pub hot_bytes: IntGauge,
}

impl Metrics {
    /// Makes and registers them.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str| {
            let counter = IntCounter::new(name, help)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let gauge = |name: &str, help: &str| {
            let gauge = IntGauge::new(name, help)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, prometheus::Error>(gauge)
        };
        let histogram = |name: &str, help: &str, first: f64, buckets: usize| {
            let buckets = prometheus::exponential_buckets(first, 2.0, buckets)?;
            let histogram = Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets))?;
            registry.register(Box::new(histogram.clone()))?;
            Ok::<_, prometheus::Error>(histogram)
        };
        let runs_touched = IntCounterVec::new(
            Opts::new(
                "spindle_processor_runs_touched_total",
                "Runs touched by micro-batches, by where their state came from",
            ),
            &["source"],
        )?;
        registry.register(Box::new(runs_touched.clone()))?;
        Ok(Self {
            stored_events: counter(
                "spindle_processor_stored_events_total",
                "Accepted events stored and committed",
            )?,
            dead_lettered_events: counter(
                "spindle_processor_dead_lettered_events_total",
                "Accepted events that went to the dead letters",
            )?,
            run_rows: counter(
                "spindle_processor_run_rows_total",
                "Rows written to runs, tombstones included",
            )?,
            batch_events: histogram(
                "spindle_processor_batch_events",
                "Events of a micro-batch",
                1.0,
                18,
            )?,
            batch_seconds: histogram(
                "spindle_processor_batch_seconds",
                "From records in hand to commit",
                0.005,
                14,
            )?,
            fold_seconds: histogram(
                "spindle_processor_fold_seconds",
                "Decoding and folding a micro-batch",
                0.001,
                14,
            )?,
            runs_touched,
            store_retries: counter(
                "spindle_processor_store_retries_total",
                "Tries that failed for a while",
            )?,
            lost_steps: counter(
                "spindle_processor_lost_steps_total",
                "Steps given up because their partitions went to another processor",
            )?,
            fenced_inserts: counter(
                "spindle_processor_fenced_inserts_total",
                "Inserts refused because they came after the lease on their partitions",
            )?,
            lag_records: gauge(
                "spindle_processor_lag_records",
                "Records appended and not yet committed",
            )?,
            hot_bytes: gauge("spindle_processor_hot_bytes", "Memory of hot runs")?,
        })
    }
}
