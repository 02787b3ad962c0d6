//! Metrics of the log over Kafka.

use prometheus::core::Collector;
use prometheus::{
    Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry,
    exponential_buckets,
};

use crate::LogError;

/// The metrics of one topic, with the label `topic`: the last part of its name, if it is one of ours. They leave the
/// registry with the log.
pub(super) struct Metrics {
    pub(super) appended_records: IntCounter,
    pub(super) appended_bytes: IntCounter,
    pub(super) append_seconds: Histogram,
    pub(super) refused: IntCounterVec,
    pub(super) in_flight_bytes: IntGauge,
    pub(super) rebalances: IntCounterVec,
    pub(super) assigned_partitions: IntGauge,
    pub(super) partitions: IntGauge,
    pub(super) lost_records: IntCounter,
    registry: Registry,
    registered: Vec<Box<dyn Collector>>,
}

impl Metrics {
    pub(super) fn new(registry: &Registry, topic: &str) -> Result<Self, LogError> {
        let made = Self::make(registry.clone(), label(topic));
        let mut metrics =
            made.map_err(|error| LogError::Settings(format!("its metrics: {error}")))?;
        for (collector, again) in metrics.boxes().into_iter().zip(metrics.boxes()) {
            match registry.register(collector) {
                Ok(()) => metrics.registered.push(again),
                // The same topic opened twice in one process: the first one is shown.
                Err(error) => tracing::debug!(topic, "a metric is not shown: {error}"),
            }
        }
        Ok(metrics)
    }

    fn make(registry: Registry, topic: &str) -> Result<Self, prometheus::Error> {
        let named = |name: &str, help: &str| {
            Opts::new(format!("spindle_eventlog_{name}"), help).const_label("topic", topic)
        };
        Ok(Metrics {
            appended_records: IntCounter::with_opts(named(
                "appended_records_total",
                "Records made durable",
            ))?,
            appended_bytes: IntCounter::with_opts(named(
                "appended_bytes_total",
                "Payload bytes made durable",
            ))?,
            append_seconds: Histogram::with_opts(HistogramOpts {
                common_opts: named("append_seconds", "From an append to its acknowledgement"),
                buckets: exponential_buckets(0.001, 2.0, 15)?,
            })?,
            refused: IntCounterVec::new(
                named("refused_records_total", "Records refused, by reason"),
                &["reason"],
            )?,
            in_flight_bytes: IntGauge::with_opts(named(
                "in_flight_bytes",
                "Bytes waiting to be made durable",
            ))?,
            rebalances: IntCounterVec::new(
                named(
                    "rebalances_total",
                    "Times members were given or lost partitions, by kind",
                ),
                &["kind"],
            )?,
            assigned_partitions: IntGauge::with_opts(named(
                "assigned_partitions",
                "Partitions that members of this process have",
            ))?,
            partitions: IntGauge::with_opts(named("partitions", "Partitions of the topic"))?,
            lost_records: IntCounter::with_opts(named(
                "lost_records_total",
                "Accepted records that are missing and were not processed, as found where a log is opened or a partition is assigned; 1 where their number is unknown",
            ))?,
            registry,
            registered: Vec::new(),
        })
    }

    fn boxes(&self) -> Vec<Box<dyn Collector>> {
        vec![
            Box::new(self.appended_records.clone()),
            Box::new(self.appended_bytes.clone()),
            Box::new(self.append_seconds.clone()),
            Box::new(self.refused.clone()),
            Box::new(self.in_flight_bytes.clone()),
            Box::new(self.rebalances.clone()),
            Box::new(self.assigned_partitions.clone()),
            Box::new(self.partitions.clone()),
            Box::new(self.lost_records.clone()),
        ]
    }

    /// Counts a failed append by the kind of its error.
    pub(super) fn refuse(&self, error: LogError) -> LogError {
        self.refused.with_label_values(&[error.reason()]).inc();
        error
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        for collector in self.registered.drain(..) {
            // It was registered, so it can be removed; if not, it stays until the process ends.
            let _ = self.registry.unregister(collector);
        }
    }
}

/// A closed set, whatever the topics are called.
fn label(topic: &str) -> &'static str {
    match topic.rsplit('.').next() {
        Some("events") => "events",
        Some("dead-letter") => "dead_letter",
        Some("control") => "control",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_topics_share_a_registry_and_leave_it() {
        let registry = Registry::new();
        let open = |topic| Metrics::new(&registry, topic).unwrap();
        let events = open("spindle.events");
        let letters = open("spindle.dead-letter");
        let again = open("spindle.events");
        events.appended_records.inc();
        letters.appended_records.inc();
        drop(again);
        let families = registry.gather();
        let appended = families
            .iter()
            .find(|family| family.name() == "spindle_eventlog_appended_records_total");
        assert_eq!(appended.unwrap().get_metric().len(), 2);
        drop((events, letters));
        assert!(registry.gather().is_empty());
    }
}
