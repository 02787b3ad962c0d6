//! Senders of many apps, which note what was accepted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use reqwest::Client;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::expected::{Expected, decimal};
use crate::harness::event;

/// Enough for nearly every partition to have some.
const APPS: usize = 24;
/// Pause of a sender between two batches.
const PAUSE: Duration = Duration::from_millis(250);
/// Pause before a batch is sent again.
const AGAIN_AFTER: Duration = Duration::from_millis(20);
/// Runs of one app without an end: one of them ends once there are more, often on the other side of a change.
const OPEN_MAX: usize = 6;
/// After this long without an accepted batch something does not come back by itself.
const ACCEPTS_WITHIN: Duration = Duration::from_secs(60);

/// One sender for each app, with runs that no other variation has.
pub(super) struct Senders {
    stop: Arc<AtomicBool>,
    accepted: Arc<Mutex<Expected>>,
    batches: watch::Sender<usize>,
    tasks: Vec<JoinHandle<()>>,
}

impl Senders {
    pub(super) fn start(urls: &[String], key: &str, seed: u64) -> Self {
        let mut senders = Self {
            stop: Arc::default(),
            accepted: Arc::default(),
            batches: watch::Sender::new(0),
            tasks: Vec::new(),
        };
        for app in 0..APPS {
            let sender = Sender {
                app: format!("growth-{seed:x}-{app}"),
                urls: urls.to_vec(),
                key: key.to_owned(),
                random: StdRng::seed_from_u64(seed.wrapping_add(1 + app as u64)),
                client: Client::new(),
                runs: 0,
                open: Vec::new(),
            };
            let (stop, accepted) = (senders.stop.clone(), senders.accepted.clone());
            let batches = senders.batches.clone();
            senders
                .tasks
                .push(tokio::spawn(sender.run(stop, accepted, batches)));
        }
        senders
    }

    /// Waits until so many more batches are accepted.
    pub(super) async fn some_more(&self, batches: usize) {
        let mut accepted = self.batches.subscribe();
        let target = *accepted.borrow() + batches;
        let reached = accepted.wait_for(|accepted| *accepted >= target);
        let reached = tokio::time::timeout(ACCEPTS_WITHIN, reached).await;
        reached.expect("batches are accepted").unwrap();
    }

    /// Stops when every batch under way has been accepted.
    pub(super) async fn finish(self) -> Expected {
        self.stop.store(true, Ordering::Release);
        for task in self.tasks {
            task.await.unwrap();
        }
        std::mem::take(&mut *self.accepted.lock().unwrap())
    }
}

struct Sender {
    app: String,
    urls: Vec<String>,
    key: String,
    random: StdRng,
    client: Client,
    /// Runs that were begun.
    runs: usize,
    /// Begun runs that have not ended.
    open: Vec<usize>,
}

impl Sender {
    async fn run(
        mut self,
        stop: Arc<AtomicBool>,
        accepted: Arc<Mutex<Expected>>,
        batches: watch::Sender<usize>,
    ) {
        while !stop.load(Ordering::Acquire) {
            let mut events = self.batch();
            // The order in which events arrive must not matter, nor how often they do (P2).
            events.shuffle(&mut self.random);
            let times = if self.random.random_bool(0.2) { 2 } else { 1 };
            for _ in 0..times {
                self.send(&events).await;
                batches.send_modify(|batches| *batches += 1);
            }
            accepted.lock().unwrap().add(&self.app, &events);
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The begin of a run, mostly with a model call, and often the end of another one.
    fn batch(&mut self) -> Vec<Value> {
        let run = self.runs;
        self.runs += 1;
        self.open.push(run);
        let mut events = vec![self.event(run, "agent_start", 0)];
        if self.random.random_bool(0.7) {
            events.extend(self.call(run));
        }
        if self.open.len() > OPEN_MAX || self.random.random_bool(0.5) {
            let place = self.random.random_range(0..self.open.len());
            let ended = self.open.swap_remove(place);
            let failed = self.random.random_bool(0.2);
            let name = if failed { "agent_error" } else { "agent_end" };
            events.push(self.event(ended, name, 8));
        }
        events
    }

    /// A model call of the run, with a cost of whole millionths.
    fn call(&mut self, run: usize) -> [Value; 2] {
        let micros = self.random.random_range(1..5_000_000);
        let mut events = [("llm_start", 2), ("llm_end", 6)].map(|(name, ms)| {
            let mut event = self.event(run, name, ms);
            let parent = event["run_id"].take();
            event["run_id"] = json!(format!("{}-call", parent.as_str().unwrap()));
            event["parent_run_id"] = parent;
            event["type"] = json!("llm");
            event
        });
        events[1]["prompt_tokens"] = json!(self.random.random_range(1..1000));
        events[1]["completion_tokens"] = json!(self.random.random_range(1..1000));
        events[1]["cost"] = serde_json::from_str(&decimal(micros)).unwrap();
        events
    }

    fn event(&self, run: usize, name: &str, ms: i64) -> Value {
        let begin = 60_000 + 10 * run as i64;
        event(&self.app, &format!("run-{run}"), name, begin + ms)
    }

    /// Sends a batch to either ingest until it is accepted.
    async fn send(&mut self, events: &[Value]) {
        loop {
            let url = &self.urls[self.random.random_range(0..self.urls.len())];
            let request = self
                .client
                .post(format!("{url}/api/report"))
                .bearer_auth(&self.key)
                .json(&json!({ "events": events }))
                .timeout(Duration::from_secs(15));
            if let Ok(answer) = request.send().await
                && answer.status().is_success()
                && let Ok(body) = answer.json::<Value>().await
            {
                assert_eq!(
                    body["accepted"],
                    events.len(),
                    "events were rejected: {body}"
                );
                return;
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }
}
