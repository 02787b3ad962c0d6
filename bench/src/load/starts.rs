//! `spindle-bench load --starts`: process starts at a fixed rate, and the latency of their responses.
//!
//! Open loop: each start is due at its time whether or not earlier ones have a response, and its latency counts from
//! then, so a server that falls behind is not spared.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bytes::Bytes;
use hdrhistogram::Histogram;
use serde_json::json;

use super::generator::histogram;
use super::report::Percentiles;
use crate::connection::{Connection, Target};

const BUILD: &str = "/api/platform/app/bench/build/b1";
const START: &str = "/rtm/api/runtime/app/bench/build/b1/process-name/Bench/start";

pub(super) struct Starts {
    pub(super) target: Target,
    pub(super) rate: u32,
    pub(super) connections: u16,
    pub(super) duration: Duration,
}

struct Seen {
    latency_us: Histogram<u64>,
    statuses: BTreeMap<u16, u64>,
    errors: u64,
}

impl Starts {
    /// Registers a build, starts its process until the time is up, and prints the result.
    pub(super) async fn run(self, as_json: bool) -> anyhow::Result<()> {
        let schema = json!({"type": "object", "required": ["key1"], "properties": {"key1": {"type": "string"}}});
        let build =
            json!({"status": "COMMITTED", "processes": [{"name": "Bench", "schema": schema}]});
        let mut first = Connection::default();
        let answer = first
            .put(&self.target, BUILD, build.to_string().into())
            .await?;
        ensure!(
            answer.status.is_success(),
            "the build was not registered ({}): {}",
            answer.status,
            String::from_utf8_lossy(&answer.body)
        );
        let this = Arc::new(self);
        let started = Instant::now();
        let workers: Vec<_> = (0..this.connections)
            .map(|number| tokio::spawn(Arc::clone(&this).worker(number, started)))
            .collect();
        let mut all = Seen::new()?;
        for worker in workers {
            let seen = worker.await.context("a connection's task broke off")??;
            all.latency_us.add(&seen.latency_us)?;
            all.errors += seen.errors;
            for (status, count) in seen.statuses {
                *all.statuses.entry(status).or_default() += count;
            }
        }
        let times = Percentiles::of_us(&all.latency_us);
        let per_second = all.latency_us.len() as f64 / started.elapsed().as_secs_f64();
        if as_json {
            let report = json!({
                "rate": this.rate, "answered_per_second": per_second, "answer_ms": times,
                "statuses": all.statuses, "connection_errors": all.errors,
            });
            println!("{report}");
        } else {
            println!("starts      {per_second:.0} of {} per second", this.rate);
            println!("answered in {times}");
            println!(
                "answers     {:?}; connection errors {}",
                all.statuses, all.errors
            );
        }
        Ok(())
    }

    async fn worker(self: Arc<Self>, number: u16, started: Instant) -> anyhow::Result<Seen> {
        let mut seen = Seen::new()?;
        let mut connection = Connection::default();
        let body = Bytes::from_static(br#"{"key1":"a value of a usual length"}"#);
        let pause = Duration::from_secs_f64(f64::from(self.connections) / f64::from(self.rate));
        let mut due = started + pause.mul_f64(f64::from(number) / f64::from(self.connections));
        while due < started + self.duration {
            tokio::time::sleep_until(due.into()).await;
            match connection.start(&self.target, START, body.clone()).await {
                Ok(answer) => {
                    *seen.statuses.entry(answer.status.as_u16()).or_default() += 1;
                    let waited = due.elapsed().as_micros() as u64;
                    seen.latency_us.saturating_record(waited);
                }
                Err(_) => seen.errors += 1,
            }
            due += pause;
        }
        Ok(seen)
    }
}

impl Seen {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {
            latency_us: histogram()?,
            statuses: BTreeMap::new(),
            errors: 0,
        })
    }
}
