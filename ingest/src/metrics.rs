//! Metrics of ingest. Labels come from closed sets, never from a request; only projects, whose number
//! is bounded, are labeled by id.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use prometheus::core::Collector;
use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry};
use schemas::ids::ProjectId;
use schemas::project_label::{self, ProjectLabels};

/// From a batch in memory to a client at the end of its time.
const SECONDS: &[f64] = &[
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];

const CLASSES: [&str; 4] = ["2xx", "3xx", "4xx", "5xx"];

#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    /// Events accepted in a response.
    pub(crate) accepted: ByProject,
    /// Events made durable in the log, with or without a response: what the processor will read (P4).
    pub(crate) appended: ByProject,
    pub(crate) records: IntCounter,
    pub(crate) append_failures: IntCounter,
    /// Decompressed bytes of completely read bodies.
    pub(crate) body_bytes: IntCounter,
    pub(crate) in_flight_bytes: IntGauge,
    rejected: IntCounterVec,
    request_seconds: Histogram,
    responses: [IntCounter; CLASSES.len()],
}

#[derive(Clone, Debug)]
pub(crate) struct ByProject {
    counters: IntCounterVec,
    labels: Arc<ProjectLabels>,
}

impl ByProject {
    pub(crate) fn add(&self, project: &ProjectId, count: u64) {
        let label = self.labels.of(project.as_str());
        self.counters.with_label_values(&[label]).inc_by(count);
    }

    /// The sum over all projects.
    pub(crate) fn get(&self) -> u64 {
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
    pub(crate) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str| {
            let counter = IntCounter::new(name, help)?;
            registry
                .register(Box::new(counter.clone()))
                .map(|()| counter)
        };
        let labels: Arc<ProjectLabels> = Arc::default();
        let by_project = |name: &str, help: &str| {
            let counters = IntCounterVec::new(Opts::new(name, help), &["project"])?;
            // Exported before the first event.
            counters.with_label_values(&[project_label::OTHER]);
            registry.register(Box::new(counters.clone()))?;
            Ok::<_, prometheus::Error>(ByProject {
                counters,
                labels: labels.clone(),
            })
        };
        let rejected = IntCounterVec::new(
            Opts::new(
                "spindle_ingest_rejected_events_total",
                "Events rejected one by one, by reason.",
            ),
            &["reason"],
        )?;
        registry.register(Box::new(rejected.clone()))?;
        let responses = IntCounterVec::new(
            Opts::new(
                "spindle_ingest_responses_total",
                "Answers to reports and exports, by class of status.",
            ),
            &["class"],
        )?;
        registry.register(Box::new(responses.clone()))?;
        let request_seconds = Histogram::with_opts(
            HistogramOpts::new(
                "spindle_ingest_request_seconds",
                "From the request's head to its answer.",
            )
            .buckets(SECONDS.to_vec()),
        )?;
        registry.register(Box::new(request_seconds.clone()))?;
        let in_flight_bytes = IntGauge::new(
            "spindle_ingest_in_flight_bytes",
            "Decompressed bytes of bodies being read or appended.",
        )?;
        registry.register(Box::new(in_flight_bytes.clone()))?;
        Ok(Self {
            accepted: by_project(
                "spindle_ingest_accepted_events_total",
                "Events answered as accepted, by project (the first 200, others as _other).",
            )?,
            appended: by_project(
                "spindle_ingest_appended_events_total",
                "Events made durable in the log, by project (the first 200, others as _other).",
            )?,
            records: counter(
                "spindle_ingest_appended_records_total",
                "Records made durable in the log.",
            )?,
            append_failures: counter(
                "spindle_ingest_append_failures_total",
                "Records the log did not take.",
            )?,
            body_bytes: counter(
                "spindle_ingest_body_bytes_total",
                "Decompressed bytes of bodies read whole.",
            )?,
            in_flight_bytes,
            rejected,
            request_seconds,
            responses: CLASSES.map(|class| responses.with_label_values(&[class])),
        })
    }

    /// Events rejected; `reason` is one of the codes of `schemas::event`.
    pub(crate) fn rejected(&self, reason: &'static str, events: u64) {
        self.rejected.with_label_values(&[reason]).inc_by(events);
    }

    /// The sum over all reasons.
    pub(crate) fn rejected_total(&self) -> u64 {
        sum(&self.rejected)
    }

    pub(crate) fn answered(&self, status: StatusCode, took: Duration) {
        self.request_seconds.observe(took.as_secs_f64());
        let class = usize::from(status.as_u16() / 100).clamp(2, 5) - 2;
        self.responses[class].inc();
    }
}
