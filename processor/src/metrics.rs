//! Metrics of the processor.

use std::sync::Arc;

use prometheus::core::Collector;
use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry};
use schemas::fold::CostStatus;
use schemas::ids::ProjectId;
use schemas::project_label::{self, ProjectLabels};

use crate::dead_letter::{Code, Poison};

#[derive(Clone, Debug)]
pub struct Metrics {
    /// Accepted events whose rows are stored and committed, duplicates included (P4).
    pub stored_events: ByProject,
    /// Accepted events that were dead-lettered instead (P4).
    pub dead_lettered_events: IntCounterVec,
    labels: Arc<ProjectLabels>,
    /// Rows written to `runs`, tombstones included.
    pub run_rows: IntCounter,
    /// Micro-batches, by events.
    pub batch_events: Histogram,
    /// From the first record of a micro-batch to its commit.
    pub batch_seconds: Histogram,
    pub fold_seconds: Histogram,
    /// Source of the state of a touched run: `hot`, `cold` (the table) or `new`.
    pub runs_touched: IntCounterVec,
    /// Look-ups of a price by result: `priced`, `unpriced`.
    pub price_lookups: IntCounterVec,
    /// Failed attempts while the store was away or overloaded.
    pub store_retries: IntCounter,
    /// Records appended to another partition than they were read from.
    pub moved_records: IntCounter,
    /// Records appended to continue a change in a large tree.
    pub slices: IntCounter,
    /// Steps whose partitions were reassigned before they were stored.
    pub lost_steps: IntCounter,
    /// Inserts rejected because their lease had expired.
    pub fenced_inserts: IntCounter,
    /// Records appended and not yet committed.
    pub lag_records: IntGauge,
    /// Age of the oldest of them, as far as known.
    pub lag_age_seconds: IntGauge,
    /// Partitions in which records wait and nothing is committed.
    pub stalled_partitions: IntGauge,
    /// Members that joined again because of that.
    pub stall_rejoins: IntCounter,
    pub hot_bytes: IntGauge,
    /// Runs with marks of which no event of their own arrived yet.
    pub waiting_marks: IntGauge,
    /// Age of the oldest of these marks.
    pub waiting_marks_age_seconds: IntGauge,
    /// Marks that were placed in the app of a run that came later.
    pub late_marks: IntCounter,
}

#[derive(Clone, Debug)]
pub struct ByProject {
    counters: IntCounterVec,
    labels: Arc<ProjectLabels>,
}

impl ByProject {
    pub fn add(&self, project: &str, count: u64) {
        let label = self.labels.of(project);
        self.counters.with_label_values(&[label]).inc_by(count);
    }

    /// The sum over all projects.
    pub fn get(&self) -> u64 {
        sum(&self.counters)
    }
}

/// The sum over all labels.
fn sum(counters: &IntCounterVec) -> u64 {
    let families = counters.collect();
    let values = families.iter().flat_map(|family| family.get_metric());
    let sum: f64 = values.map(|metric| metric.get_counter().get_value()).sum();
    sum as u64
}

impl Metrics {
    /// Without a project if the record does not name one.
    pub(crate) fn dead_lettered(&self, project: Option<&ProjectId>, bad: &Poison) {
        let label = project.map_or(project_label::OTHER, |project| {
            self.labels.of(project.as_str())
        });
        self.dead_lettered_events
            .with_label_values(&[label, bad.code.as_str()])
            .inc_by(bad.events);
    }

    /// The sum over all projects and reasons.
    pub fn dead_lettered_total(&self) -> u64 {
        sum(&self.dead_lettered_events)
    }

    /// Counts the look-up of a price, if there was one.
    pub(crate) fn priced(&self, status: CostStatus) {
        let outcome = match status {
            CostStatus::Priced => "priced",
            CostStatus::PartlyPriced => "partly_priced",
            CostStatus::UnpricedModel => "unpriced",
            _ => return,
        };
        self.price_lookups.with_label_values(&[outcome]).inc();
    }

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
        // Exported before the first event.
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
            stalled_partitions: gauge(
                "spindle_processor_stalled_partitions",
                "Partitions in which records wait and nothing was committed for a minute, although the store is there",
            )?,
            stall_rejoins: counter(
                "spindle_processor_stall_rejoins_total",
                "Members that joined the group again because a partition was stalled",
            )?,
            hot_bytes: gauge("spindle_processor_hot_bytes", "Memory of hot runs")?,
            waiting_marks: gauge(
                "spindle_processor_waiting_marks",
                "Runs with saved, unsaved or feedback events of which no event of their own arrived yet, in the whole deployment",
            )?,
            waiting_marks_age_seconds: gauge(
                "spindle_processor_waiting_marks_age_seconds",
                "Age of the oldest of these events",
            )?,
            late_marks: counter(
                "spindle_processor_late_marks_total",
                "Events that waited in the default app and were placed in the app of their run",
            )?,
        })
    }
}
