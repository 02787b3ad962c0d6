//! Output: a line each second, and the result.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{bail, ensure};
use hdrhistogram::Histogram;
use serde::Serialize;

use super::generator::Counters;

/// JSON names are stable.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(super) url: String,
    pub(crate) batch_size: u32,
    pub(crate) event_bytes: usize,
    pub(super) connections: u16,
    pub(super) apps: u32,
    pub(super) rate: u32,
    pub(super) seconds: f64,
    pub(super) requests: u64,
    pub(crate) accepted_events: u64,
    pub(crate) accepted_per_second: f64,
    pub(super) rejected_events: u64,
    pub(super) abandoned_batches: u64,
    pub(crate) answer_ms: Percentiles,
    pub(super) statuses: BTreeMap<u16, u64>,
    pub(super) connection_errors: u64,
    pub(crate) stored: Option<Stored>,
    pub(crate) visible_ms: Option<Percentiles>,
    pub(super) visible_samples: u64,
    pub(super) unseen_samples: usize,
}

/// What the processor stored.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Stored {
    pub(crate) events: u64,
    /// Accepted events, including sampled runs and batches that were appended twice.
    pub(super) of_events: u64,
    /// Over the time of the load and, with `--verify`, of the draining.
    pub(crate) per_second: f64,
    /// Accepted and not yet stored when the load ended.
    pub(super) backlog_at_end: u64,
    /// From the end of the load until everything was stored.
    pub(super) drain_seconds: Option<f64>,
    pub(super) is_complete: bool,
}

/// Milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Percentiles {
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(super) max: f64,
}

impl Percentiles {
    pub(super) fn of_us(histogram: &Histogram<u64>) -> Self {
        let ms = |quantile| histogram.value_at_quantile(quantile) as f64 / 1000.0;
        Self {
            p50: ms(0.5),
            p95: ms(0.95),
            p99: ms(0.99),
            max: histogram.max() as f64 / 1000.0,
        }
    }
}

impl std::fmt::Display for Percentiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { p50, p95, p99, max } = self;
        write!(
            f,
            "p50 {p50:.1} ms, p95 {p95:.1} ms, p99 {p99:.1} ms, max {max:.1} ms"
        )
    }
}

impl Report {
    /// # Errors
    /// If something that was accepted is not stored, or a sampled run not listed.
    pub(super) fn verify(&self) -> anyhow::Result<()> {
        let stored = self.stored.as_ref();
        let missing = stored.filter(|stored| !stored.is_complete);
        if let Some(stored) = missing {
            let (accepted, stored) = (self.accepted_events, stored.events);
            bail!("--verify: {accepted} events were accepted and {stored} stored");
        }
        let unseen = self.unseen_samples;
        ensure!(
            unseen == 0,
            "--verify: {unseen} sampled runs never came into the list"
        );
        Ok(())
    }

    pub(crate) fn print(&self, as_json: bool) -> anyhow::Result<()> {
        if as_json {
            println!("{}", serde_json::to_string_pretty(self)?);
            return Ok(());
        }
        let megabytes = self.accepted_per_second * self.event_bytes as f64 / 1e6;
        println!(
            "accepted    {:.0} events/s ({megabytes:.0} MB/s): {} events of {} bytes in {:.1} s, {} at a time over {} connections",
            self.accepted_per_second,
            self.accepted_events,
            self.event_bytes,
            self.seconds,
            self.batch_size,
            self.connections,
        );
        println!("answered in {}", self.answer_ms);
        let statuses: Vec<String> = self
            .statuses
            .iter()
            .map(|(status, count)| format!("{status}: {count}"))
            .collect();
        println!(
            "answers     {}; connection errors {}, rejected events {}, batches never accepted {}",
            statuses.join(", "),
            self.connection_errors,
            self.rejected_events,
            self.abandoned_batches
        );
        if let Some(stored) = &self.stored {
            let drained = stored.drain_seconds.map_or(String::new(), |seconds| {
                format!(", drained in {seconds:.1} s")
            });
            println!(
                "stored      {:.0} events/s: {} events, backlog at the end of the load {}{drained}",
                stored.per_second, stored.events, stored.backlog_at_end
            );
        }
        if let Some(visible) = &self.visible_ms {
            println!(
                "visible in  {visible} after the answer ({} runs sampled, {} not seen)",
                self.visible_samples, self.unseen_samples
            );
        }
        Ok(())
    }
}

/// Prints a line each second until it is dropped.
pub(super) async fn progress(counters: Arc<Counters>) {
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    ticks.tick().await;
    let mut before = 0;
    for second in 1u64.. {
        ticks.tick().await;
        let accepted = counters.accepted.load(Ordering::Relaxed);
        let refused = counters.refused.load(Ordering::Relaxed);
        eprintln!(
            "{second:>4} s  {:>9} events/s accepted, {refused} requests refused",
            accepted - before
        );
        before = accepted;
    }
}
