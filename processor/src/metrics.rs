//! What the processor counts.

use std::sync::Arc;

use prometheus::core::Collector;
use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry};
use schemas::fold::CostStatus;
use schemas::ids::ProjectId;
use schemas::project_label::{self, ProjectLabels};

use crate::decode::{Code, Poison};

/// The processor's metrics.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Accepted events whose rows are stored and committed, repetitions included (P4).
    pub stored_events: ByProject,
    /// Accepted events that went to the dead letters instead (P4).
    pub dead_lettered_events: IntCounterVec,
    labels: Arc<ProjectLabels>,
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
    /// Calls that a price was looked up for, by whether there was one: `priced`, `unpriced`.
    pub price_lookups: IntCounterVec,
    /// Tries that failed because the store was away or overloaded.
    pub store_retries: IntCounter,
    /// Records that were appended to another partition than they lay in.
    pub moved_records: IntCounter,
    /// Records appended to go on with a change in a large tree.
    pub slices: IntCounter,
    /// Steps whose partitions went to another member before they were stored.
    pub lost_steps: IntCounter,
    /// Inserts that were refused because they came after the lease.
    pub fenced_inserts: IntCounter,
    /// Records appended and not yet committed.
    pub lag_records: IntGauge,
    /// Since when the oldest of them is known to be there.
    pub lag_age_seconds: IntGauge,
    /// Memory of the hot runs.
    pub hot_bytes: IntGauge,
}

/// A counter by project.
#[derive(Clone, Debug)]
pub struct ByProject {
    counters: IntCounterVec,
    labels: Arc<ProjectLabels>,
}

impl ByProject {
    /// Counts for a project.
    pub fn add(&self, project: &str, count: u64) {
        let label = self.labels.of(project);
        self.counters.with_label_values(&[label]).inc_by(count);
    }

    /// Over all projects.
    pub fn get(&self) -> u64 {
        sum(&self.counters)
    }
}

/// Over all labels.
fn sum(counters: &IntCounterVec) -> u64 {
    let families = counters.collect();
    let values = families.iter().flat_map(|family| family.get_metric());
    let sum: f64 = values.map(|metric| metric.get_counter().get_value()).sum();
    sum as u64
}

impl Metrics {
    /// Counts what went to the dead letters; of no project when its record does not say which.
    pub(crate) fn dead_lettered(&self, project: Option<&ProjectId>, bad: &Poison) {
        let label = project.map_or(project_label::OTHER, |project| {
            self.labels.of(project.as_str())
        });
        self.dead_lettered_events
            .with_label_values(&[label, bad.code.as_str()])
            .inc_by(bad.events);
    }

    /// Events that went to the dead letters, over all projects and reasons.
    pub fn dead_lettered_total(&self) -> u64 {
        sum(&self.dead_lettered_events)
    }

    /// Counts a run's look-up of a price, if it came to that.
    pub(crate) fn priced(&self, status: CostStatus) {
        let outcome = match status {
            CostStatus::Priced => "priced",
            CostStatus::UnpricedModel => "unpriced",
            _ => return,
        };
        self.price_lookups.with_label_values(&[outcome]).inc();
    }

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
        let price_lookups = IntCounterVec::new(
            Opts::new(
                "spindle_processor_price_lookups_total",
                "Model calls that a price was looked up for, by whether there was one",
            ),
            &["outcome"],
        )?;
        for outcome in ["priced", "unpriced"] {
            price_lookups.with_label_values(&[outcome]);
        }
        registry.register(Box::new(price_lookups.clone()))?;
        let labels: Arc<ProjectLabels> = Arc::default();
        let counters = IntCounterVec::new(
            Opts::new(
                "spindle_processor_stored_events_total",
                "Accepted events stored and committed, by project (the first 200, others as _other)",
            ),
            &["project"],
        )?;
        // There before the first event is.
        counters.with_label_values(&[project_label::OTHER]);
        registry.register(Box::new(counters.clone()))?;
        let stored_events = ByProject {
            counters,
            labels: labels.clone(),
        };
        let dead_lettered_events = IntCounterVec::new(
            Opts::new(
                "spindle_processor_dead_lettered_events_total",
                "Accepted events that went to the dead letters, by project (the first 200, others as _other) and reason",
            ),
            &["project", "reason"],
        )?;
        for code in Code::ALL {
            dead_lettered_events.with_label_values(&[project_label::OTHER, code.as_str()]);
        }
        registry.register(Box::new(dead_lettered_events.clone()))?;
        Ok(Self {
            stored_events,
            dead_lettered_events,
            labels,
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
            price_lookups,
            store_retries: counter(
                "spindle_processor_store_retries_total",
                "Tries that failed for a while",
            )?,
            moved_records: counter(
                "spindle_processor_moved_records_total",
                "Records moved to the partition of their key after the log got more of them",
            )?,
            slices: counter(
                "spindle_processor_slices_total",
                "Records appended to go on with a change in a large tree",
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
            lag_age_seconds: gauge(
                "spindle_processor_lag_age_seconds",
                "How long the oldest record that is not committed is known to wait",
            )?,
            hot_bytes: gauge("spindle_processor_hot_bytes", "Memory of hot runs")?,
        })
    }
}
