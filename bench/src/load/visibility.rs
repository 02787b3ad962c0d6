//! Latency from the response to the list: posts a marked run at intervals, and polls for the marked runs until each is
//! listed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bytes::Bytes;
use hdrhistogram::Histogram;
use hyper::StatusCode;
use serde::Deserialize;
use spindle_client::{Event, Kind, Timestamp, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::generator::histogram;
use crate::connection::{Connection, Target};

/// Pause between two polls: the error of a measured time, small compared to a second.
const LOOK_PAUSE: Duration = Duration::from_millis(5);
/// Runs per poll: what is outstanding when visibility is some seconds behind.
const LOOK_LIMIT: usize = 200;
/// The app of the marked runs: an app of the load, so that they queue behind it.
const APP: &str = "bench-0000";

pub(super) struct Seen {
    pub(super) latency_us: Histogram<u64>,
    /// Runs that were accepted and not listed in time.
    pub(super) unseen: usize,
}

/// Posts and polls on separate connections, until told to finish.
pub(super) struct Sampler {
    posting: watch::Sender<Phase>,
    poster: Option<JoinHandle<u64>>,
    looker: JoinHandle<anyhow::Result<Histogram<u64>>>,
    outstanding: Arc<Outstanding>,
}

/// Runs that were accepted and not yet listed.
#[derive(Default)]
struct Outstanding(Mutex<HashMap<String, Answered>>);

#[derive(Clone, Copy)]
struct Answered {
    at: Instant,
    timestamp_ms: i64,
}

#[derive(Deserialize)]
struct Page {
    data: Vec<Run>,
}

#[derive(Deserialize)]
struct Run {
    run_id: String,
}

impl Outstanding {
    fn with<T>(&self, f: impl FnOnce(&mut HashMap<String, Answered>) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Sampler {
    pub(super) fn start(target: Arc<Target>, every: Duration) -> Self {
        let (posting, is_posting) = watch::channel(Phase::Posting);
        let outstanding = Arc::new(Outstanding::default());
        let marker = format!("bench-{:08x}@example.com", rand::random::<u32>());
        let poster = post(
            Arc::clone(&target),
            every,
            marker.clone(),
            Arc::clone(&outstanding),
            is_posting,
        );
        let looker = look(
            target,
            marker,
            Arc::clone(&outstanding),
            posting.subscribe(),
        );
        Self {
            posting,
            poster: Some(tokio::spawn(poster)),
            looker: tokio::spawn(looker),
            outstanding,
        }
    }

    /// Stops posting; returns how many runs were accepted.
    pub(super) async fn stop_posting(&mut self) -> anyhow::Result<u64> {
        self.posting.send_replace(Phase::Stopping);
        let posted = match self.poster.take() {
            Some(poster) => poster.await.context("the sampler broke off"),
            None => Ok(0),
        };
        self.posting.send_replace(Phase::Posted);
        posted
    }

    /// Waits for outstanding runs, after [`Sampler::stop_posting`].
    pub(super) async fn finish(self, patience: Duration) -> anyhow::Result<Seen> {
        let Self {
            posting,
            mut looker,
            outstanding,
            ..
        } = self;
        let deadline = tokio::time::sleep(patience);
        tokio::select! {
            latency_us = &mut looker => {
                Ok(Seen { latency_us: latency_us.context("the sampler broke off")??, unseen: 0 })
            }
            () = deadline => {
                // Closing the channel makes the poller return its result.
                drop(posting);
                let latency_us = looker.await.context("the sampler broke off")??;
                Ok(Seen { latency_us, unseen: outstanding.with(|runs| runs.len()) })
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Posting,
    Stopping,
    /// The poster has stopped: no more runs become outstanding.
    Posted,
}

async fn post(
    target: Arc<Target>,
    every: Duration,
    marker: String,
    outstanding: Arc<Outstanding>,
    is_posting: watch::Receiver<Phase>,
) -> u64 {
    let mut connection = Connection::default();
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut number, mut accepted) = (0u64, 0);
    while *is_posting.borrow() == Phase::Posting {
        ticks.tick().await;
        number += 1;
        let run_id = format!("{marker}-{number}");
        let event = Event {
            app_id: Some(APP.to_owned()),
            kind: Some(Kind::Agent),
            user_email: Some(marker.clone()),
            agent: Some("bench-sampler".to_owned()),
            input: json(serde_json::json!({"question": "when will this be seen?"})),
            ..Event::new("agent_start", run_id.as_str())
        };
        let timestamp_ms = event.timestamp.as_ms();
        let body = format!("{{\"events\":[{}]}}", event.to_json());
        // A rejected run is no sample: the measured time begins with a response.
        let Ok(answer) = connection.report(&target, Bytes::from(body)).await else {
            continue;
        };
        if answer.status == StatusCode::OK {
            accepted += 1;
            outstanding.with(|runs| {
                runs.insert(
                    run_id,
                    Answered {
                        at: Instant::now(),
                        timestamp_ms,
                    },
                )
            });
        }
    }
    accepted
}

/// Ends when posting has ended and nothing is outstanding, or when the channel is closed.
async fn look(
    target: Arc<Target>,
    marker: String,
    outstanding: Arc<Outstanding>,
    posting: watch::Receiver<Phase>,
) -> anyhow::Result<Histogram<u64>> {
    let mut connection = Connection::default();
    let mut latency_us = histogram()?;
    let marker = marker.replace('@', "%40");
    loop {
        let is_closed = posting.has_changed().is_err();
        // Not before: the last run may be in flight when the poster is stopped.
        let all_are_posted = *posting.borrow() == Phase::Posted;
        let oldest_ms =
            outstanding.with(|runs| runs.values().map(|answered| answered.timestamp_ms).min());
        let Some(oldest_ms) = oldest_ms else {
            if all_are_posted {
                return Ok(latency_us);
            }
            tokio::time::sleep(LOOK_PAUSE).await;
            continue;
        };
        if is_closed {
            return Ok(latency_us);
        }
        let from = Timestamp::from_ms(oldest_ms);
        let path = format!(
            "/api/run/?app_id={APP}&user_email={marker}&from={from}&limit={LOOK_LIMIT}&sort=started_at"
        );
        // Polling continues while a server restarts, and ends when it rejects the query.
        if let Ok(answer) = connection.get(&target, &path).await
            && !answer.status.is_server_error()
            && answer.status != StatusCode::TOO_MANY_REQUESTS
        {
            ensure!(
                answer.status == StatusCode::OK,
                "the list of runs answers {}: {} (--sample-every 0s does without it)",
                answer.status,
                String::from_utf8_lossy(&answer.body)
            );
            let seen = Instant::now();
            let page: Page = serde_json::from_slice(&answer.body)
                .context("the list of runs is not as expected")?;
            outstanding.with(|runs| {
                for run in page.data {
                    if let Some(answered) = runs.remove(&run.run_id) {
                        latency_us
                            .saturating_record(seen.duration_since(answered.at).as_micros() as u64);
                    }
                }
            });
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}
