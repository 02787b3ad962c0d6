//! A load whose outcome is known: small trees of runs, six events each, sent again until they are answered with 200.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};

use crate::harness::{Server, VISIBLE_WITHIN, event};

pub(crate) const EVENTS_PER_RUN: usize = 6;
/// Runs that are looked at event by event.
const DETAILS: usize = 100;
/// Sets the seed of a test.
const SEED_VARIABLE: &str = "SPINDLE_TEST_SEED";
/// After this long without an accepted event something does not come back by itself.
const ACCEPTS_WITHIN: Duration = Duration::from_secs(60);
/// Pause of a sender between two batches: load enough to be in the middle of something whenever a kill comes.
const PAUSE: Duration = Duration::from_millis(50);

/// What is sent, and how densely.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traffic<'a> {
    pub(crate) app: &'a str,
    pub(crate) seed: u64,
    pub(crate) senders: usize,
    /// Pause of a sender between two batches.
    pub(crate) pause: Duration,
}

impl<'a> Traffic<'a> {
    pub(crate) fn new(app: &'a str, seed: u64, senders: usize) -> Self {
        Self {
            app,
            seed,
            senders,
            pause: PAUSE,
        }
    }
}

/// Senders that go on through every death of the server, and what they have had answered.
pub(crate) struct Load {
    app: String,
    urls: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    sent_again: Arc<AtomicUsize>,
    accepted: Arc<Mutex<Vec<Sent>>>,
    senders: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    pub(crate) fn start(server: &Server, traffic: Traffic<'_>) -> Self {
        Self::start_on(vec![server.url.clone()], &server.key, traffic)
    }

    /// Each batch goes to any of these servers, and to any other when it has to be sent again.
    pub(crate) fn start_on(urls: Vec<String>, key: &str, traffic: Traffic<'_>) -> Self {
        let Traffic {
            app,
            seed,
            senders,
            pause,
        } = traffic;
        let mut load = Self {
            app: app.to_owned(),
            urls: Arc::new(Mutex::new(urls)),
            stop: Arc::default(),
            sent_again: Arc::default(),
            accepted: Arc::default(),
            senders: Vec::new(),
        };
        for sender in 0..senders {
            load.senders.push(tokio::spawn(send(
                Sender {
                    name: format!("{app}-{sender}"),
                    app: app.to_owned(),
                    key: key.to_owned(),
                    pause,
                    urls: load.urls.clone(),
                    stop: load.stop.clone(),
                    sent_again: load.sent_again.clone(),
                    accepted: load.accepted.clone(),
                },
                StdRng::seed_from_u64(seed + sender as u64),
            )));
        }
        load
    }

    /// Waits until so many more runs are accepted.
    pub(crate) async fn some_more(&self, runs: usize) {
        let target = self.accepted() + runs;
        let deadline = Instant::now() + ACCEPTS_WITHIN;
        while self.accepted() < target {
            assert!(Instant::now() < deadline, "nothing more is accepted");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The server moved to another port.
    pub(crate) fn follow(&self, server: &Server) {
        self.follow_as(0, server);
    }

    /// The same for one of several.
    pub(crate) fn follow_as(&self, place: usize, server: &Server) {
        self.urls.lock().unwrap()[place] = server.url.clone();
    }

    /// Runs whose events were all answered with 200 so far.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.lock().unwrap().len()
    }

    /// Stops when every batch under way has been accepted; gives the runs.
    pub(crate) async fn finish(self) -> Accepted {
        self.stop.store(true, Ordering::Relaxed);
        for sender in self.senders {
            sender.await.unwrap();
        }
        let runs = std::mem::take(&mut *self.accepted.lock().unwrap());
        Accepted {
            app: self.app,
            runs,
            sent_again: self.sent_again.load(Ordering::Relaxed),
        }
    }
}

/// An accepted run.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) id: String,
    /// It and its descendants.
    tree: usize,
}

struct Sender {
    name: String,
    app: String,
    key: String,
    pause: Duration,
    urls: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    sent_again: Arc<AtomicUsize>,
    accepted: Arc<Mutex<Vec<Sent>>>,
}

async fn send(sender: Sender, mut random: StdRng) {
    let client = Client::builder()
        .timeout(Duration::from_secs(5))
        .build()
        .unwrap();
    let mut next = 0;
    while !sender.stop.load(Ordering::Relaxed) {
        let runs: Vec<String> = (0..random.random_range(1..8))
            .map(|of| format!("{}-{}", sender.name, next + of))
            .collect();
        next += runs.len();
        let mut events: Vec<Value> = runs
            .iter()
            .enumerate()
            .flat_map(|(of, run)| {
                let parent = (of > 0).then(|| runs[(of - 1) / 2].as_str());
                events_of(&sender.app, (run, parent), of as i64)
            })
            .collect();
        // The order in which events arrive must not matter (P2).
        events.shuffle(&mut random);
        let (first, second) = events.split_at(random.random_range(0..=events.len()));
        for part in [first, second].into_iter().filter(|part| !part.is_empty()) {
            loop {
                let url = {
                    let urls = sender.urls.lock().unwrap();
                    format!("{}/api/report", urls[random.random_range(0..urls.len())])
                };
                let answer = client
                    .post(url)
                    .bearer_auth(&sender.key)
                    .json(&json!({"events": part}))
                    .send()
                    .await;
                match answer {
                    Ok(answer) if answer.status() == StatusCode::OK => {
                        let body: Value = answer.json().await.unwrap_or_default();
                        if body["accepted"].as_u64() == Some(part.len() as u64) {
                            break;
                        }
                        assert!(body.is_null(), "events were rejected: {body}");
                    }
                    Ok(answer) => assert!(
                        answer.status() == StatusCode::SERVICE_UNAVAILABLE,
                        "answered {}",
                        answer.status()
                    ),
                    Err(_) => {}
                }
                sender.sent_again.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        let trees = tree_sizes(runs.len());
        let sent = runs.into_iter().zip(trees);
        let sent = sent.map(|(id, tree)| Sent { id, tree });
        sender.accepted.lock().unwrap().extend(sent);
        tokio::time::sleep(sender.pause).await;
    }
}

/// How many runs each run of a batch has in its tree: run `n` hangs below run `(n - 1) / 2`.
fn tree_sizes(runs: usize) -> Vec<usize> {
    let mut sizes = vec![1; runs];
    for run in (1..runs).rev() {
        sizes[(run - 1) / 2] += sizes[run];
    }
    sizes
}

fn events_of(app: &str, (run, parent): (&str, Option<&str>), of: i64) -> [Value; EVENTS_PER_RUN] {
    let base = 60_000 + of * 10;
    let mut events = [
        ("agent_start", 0),
        ("note", 3),
        ("usage", 5),
        ("agent_end", 40),
        ("saved", 50),
        ("feedback", 60),
    ]
    .map(|(name, ms)| event(app, run, name, base + ms));
    events[0]["parent_run_id"] = json!(parent);
    events[0]["input"] = json!({"question": run});
    events[1]["tags"] = json!(["noted", run]);
    events[2]["prompt_tokens"] = json!(30 + of);
    events[2]["completion_tokens"] = json!(12);
    events[2]["cost"] = json!(0.000_000_000_000_000_001);
    events[3]["output"] = json!({"answer": run});
    events[5]["rating"] = json!("negative");
    events[5]["comment"] = json!(run);
    events
}

/// What must be found afterwards.
pub(crate) struct Accepted {
    pub(crate) app: String,
    pub(crate) runs: Vec<Sent>,
    pub(crate) sent_again: usize,
}

impl Accepted {
    /// Every accepted run is there once, whole and as expected, with every event once (R1).
    pub(crate) async fn assert_found_once(&self, server: &Server) {
        let found = server
            .until(
                "every accepted run is there and closed",
                VISIBLE_WITHIN,
                async || {
                    let runs = server.all_runs(&self.app).await?;
                    let settled = runs.iter().filter(|run| {
                        run["status"] == "success"
                            && run["saved"] == true
                            && !run["feedback"].is_null()
                    });
                    if settled.count() < self.runs.len() {
                        return None;
                    }
                    // A run's last change and what follows from it above are stored together: read once more, all of
                    // it is there.
                    server.all_runs(&self.app).await
                },
            )
            .await;
        let mut by_id: BTreeMap<&str, &Value> = BTreeMap::new();
        for run in &found {
            let id = run["run_id"].as_str().unwrap();
            assert!(
                by_id.insert(id, run).is_none(),
                "run {id} is there twice (P3)"
            );
        }
        for Sent { id, tree } in &self.runs {
            let run = by_id
                .get(id.as_str())
                .unwrap_or_else(|| panic!("run {id} was accepted and is lost"));
            assert_eq!(run["status"], "success", "{run}");
            assert_eq!(run["latency_s"], json!(0.04), "{run}");
            assert_eq!(run["completion_tokens"], 12, "{run}");
            let tags = run["tags"].as_array().unwrap();
            assert!(tags.len() == 2 && tags.contains(&json!(id)), "{run}");
            assert_eq!(run["feedback"]["comment"], json!(id), "{run}");
            let total_cost = run["total_cost"].to_string();
            assert_eq!(
                total_cost,
                format!("{tree}e-18"),
                "{tree} in the tree (P6): {run}"
            );
        }
        // A row with all of this has folded each of the four events; that each is stored once is looked at run by run.
        let step = (self.runs.len() / DETAILS).max(1);
        for Sent { id, .. } in self.runs.iter().step_by(step) {
            let path = format!("/api/run/{id}?app_id={}", self.app);
            let (status, run) = server.get(&path).await;
            assert_eq!(status, StatusCode::OK, "{run}");
            let events = run["events"].as_array().map(Vec::len);
            assert_eq!(events, Some(EVENTS_PER_RUN), "events of {id}: {run}");
        }
    }
}

/// The seed of a test: that of the variable, or a new one. It is printed, and the same one gives the same moments and
/// choices in the same order.
pub(crate) fn seed() -> u64 {
    let given = std::env::var(SEED_VARIABLE).ok();
    let seed = given.and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(rand::random::<u64>);
    eprintln!("{SEED_VARIABLE}={seed}");
    seed
}
