//! Metrics of the embedded log.

use prometheus::{
    Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry,
    exponential_buckets,
};

use crate::LogError;

#[derive(Clone)]
pub(crate) struct Metrics {
    pub(crate) appended_records: IntCounter,
    pub(crate) appended_bytes: IntCounter,
    pub(crate) refused: IntCounterVec,
    pub(crate) group_records: Histogram,
    pub(crate) syncs: IntCounter,
    pub(crate) sync_seconds: Histogram,
    pub(crate) disk_bytes: IntGauge,
    pub(crate) in_flight_bytes: IntGauge,
    pub(crate) tail_bytes: IntGauge,
    pub(crate) cold_read_bytes: IntCounter,
    pub(crate) segments: IntGauge,
    pub(crate) lost_records: IntCounter,
}

impl Metrics {
    pub(crate) fn new(registry: &Registry) -> Result<Self, LogError> {
        Self::register(registry)
            .map_err(|error| LogError::Settings(format!("its metrics clash: {error}")))
    }

    fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str| -> Result<IntCounter, prometheus::Error> {
            let metric = IntCounter::new(format!("spindle_eventlog_{name}"), help)?;
            registry.register(Box::new(metric.clone()))?;
            Ok(metric)
        };
        let gauge = |name: &str, help: &str| -> Result<IntGauge, prometheus::Error> {
            let metric = IntGauge::new(format!("spindle_eventlog_{name}"), help)?;
            registry.register(Box::new(metric.clone()))?;
            Ok(metric)
        };
        let histogram = |name: &str, help: &str, buckets| -> Result<Histogram, prometheus::Error> {
            let name = format!("spindle_eventlog_{name}");
            let metric = Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets))?;
            registry.register(Box::new(metric.clone()))?;
            Ok(metric)
        };
        let refused = IntCounterVec::new(
            Opts::new(
                "spindle_eventlog_refused_records_total",
                "Records refused, by reason",
            ),
            &["reason"],
        )?;
        registry.register(Box::new(refused.clone()))?;
        Ok(Metrics {
            appended_records: counter("appended_records_total", "Records made durable")?,
            appended_bytes: counter("appended_bytes_total", "Payload bytes made durable")?,
            refused,
            group_records: histogram(
                "group_records",
                "Records made durable by one commit of the store",
                exponential_buckets(1.0, 2.0, 11)?,
            )?,
            syncs: counter("syncs_total", "Calls of fdatasync")?,
            sync_seconds: histogram(
                "sync_seconds",
                "How long a call of fdatasync took",
                exponential_buckets(0.000_1, 2.0, 15)?,
            )?,
            disk_bytes: gauge("disk_bytes", "Bytes of the records kept, padding included")?,
            in_flight_bytes: gauge("in_flight_bytes", "Bytes waiting to be made durable")?,
            tail_bytes: gauge(
                "tail_bytes",
                "Bytes kept in memory for members right behind",
            )?,
            cold_read_bytes: counter("cold_read_bytes_total", "Bytes read back from files")?,
            segments: gauge("segments", "Segment files kept")?,
            lost_records: counter(
                "lost_records_total",
                "Accepted records that are missing and were not processed, as found where a log is opened or a partition is assigned; 1 where their number is unknown",
            )?,
        })
    }

    /// Counts a failed append by the kind of its error.
    pub(crate) fn refuse(&self, error: LogError) -> LogError {
        self.refused.with_label_values(&[error.reason()]).inc();
        error
    }
}
