//! How long the deployment takes to recover, with the default settings: the table in `docs/guide/distributed.md`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use reqwest::Client;
use rustix::process::Signal;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::deployment::{Asking, Deployment, Plan};
use crate::harness::event;

/// Enough for nearly every partition to have some.
const APPS: usize = 24;
/// Pause between two events of one app.
const PAUSE: Duration = Duration::from_millis(250);
/// How long events are sent after a processor stops or starts: longer than it takes to start, to listen and to join.
const JOINED: Duration = Duration::from_secs(22);
/// The same after the broker is back: longer than the session.
const REJOINED: Duration = Duration::from_secs(15);
/// How long the broker is away, so that every session ends.
const AWAY: Duration = Duration::from_secs(15);
/// How long it sleeps: longer than the session, and than a processor stores without a heartbeat of its own.
const ASLEEP: Duration = Duration::from_secs(15);
/// Time-out of one measurement.
const MOST: Duration = Duration::from_secs(120);
/// Rounds of each fault; the middle counts, so that a pause of a busy machine does not decide.
const ROUNDS: usize = 3;

/// Events of many apps, one run each, with the times at which they were accepted and seen.
struct Probe {
    stop: Arc<AtomicBool>,
    accepted: Arc<Mutex<BTreeMap<String, Vec<Instant>>>>,
    seen: Arc<Mutex<BTreeMap<String, Vec<Instant>>>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Probe {
    fn start(deployment: &Deployment) -> Self {
        let mut probe = Self {
            stop: Arc::default(),
            accepted: Arc::default(),
            seen: Arc::default(),
            tasks: Vec::new(),
        };
        let urls = deployment.ingest_urls();
        for at in 0..APPS {
            let target = (urls[at % urls.len()].clone(), deployment.key.clone());
            let (stop, accepted) = (probe.stop.clone(), probe.accepted.clone());
            let app = format!("app-{at}");
            probe
                .tasks
                .push(tokio::spawn(send(app, target, stop, accepted)));
        }
        let (stop, seen) = (probe.stop.clone(), probe.seen.clone());
        probe
            .tasks
            .push(tokio::spawn(look(deployment.asking(), stop, seen)));
        probe
    }

    /// The longest time from the acceptance of an event until it was seen, of the events that were accepted from `from`
    /// on; the first event of each app counts from `from`.
    async fn worst(&self, from: Instant, window: Duration) -> Duration {
        tokio::time::sleep_until((from + window).into()).await;
        let accepted = self.accepted.lock().unwrap().clone();
        let deadline = Instant::now() + MOST;
        loop {
            let seen = self.seen.lock().unwrap().clone();
            let is_seen = |(app, times): (&String, &Vec<Instant>)| {
                seen.get(app).is_some_and(|seen| seen.len() >= times.len())
            };
            if accepted.iter().all(is_seen) {
                let worst = accepted
                    .iter()
                    .map(|(app, times)| worst(times, &seen[app], from));
                return worst.max().unwrap_or_default();
            }
            assert!(
                Instant::now() < deadline,
                "events are not seen within {MOST:?}"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn end(self) {
        self.stop.store(true, Ordering::Release);
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

fn worst(accepted: &[Instant], seen: &[Instant], from: Instant) -> Duration {
    let both = accepted.iter().zip(seen);
    let after = both.filter(|(accepted, _)| **accepted >= from);
    let delays = after.enumerate().map(|(at, (accepted, seen))| match at {
        0 => seen.saturating_duration_since(from),
        _ => seen.saturating_duration_since(*accepted),
    });
    delays.max().unwrap_or_default()
}

async fn send(
    app: String,
    (url, key): (String, String),
    stop: Arc<AtomicBool>,
    accepted: Arc<Mutex<BTreeMap<String, Vec<Instant>>>>,
) {
    let client = Client::new();
    let mut number = 0;
    while !stop.load(Ordering::Acquire) {
        let body = json!({ "events": [event(&app, &format!("{app}-{number}"), "agent_start", 0)] });
        let request = client.post(format!("{url}/api/report")).bearer_auth(&key);
        let answer = request.json(&body).timeout(Duration::from_secs(15)).send();
        if answer
            .await
            .is_ok_and(|answer| answer.status().is_success())
        {
            number += 1;
            let mut accepted = accepted.lock().unwrap();
            accepted
                .entry(app.clone())
                .or_default()
                .push(Instant::now());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Notes when the next event of each app is seen. Events of one app are stored in order.
async fn look(
    asking: Asking,
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<BTreeMap<String, Vec<Instant>>>>,
) {
    while !stop.load(Ordering::Acquire) {
        let counts = asking
            .sql("SELECT app_id, uniqExact(run_id) FROM runs GROUP BY app_id FORMAT TSV")
            .await;
        let now = Instant::now();
        for line in counts.lines() {
            let Some((app, count)) = line.split_once('\t') else {
                continue;
            };
            let count = count.parse::<usize>().unwrap_or(0);
            let mut seen = seen.lock().unwrap();
            let times = seen.entry(app.to_owned()).or_default();
            while times.len() < count {
                times.push(now);
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn deployment() -> Deployment {
    Deployment::start_with(
        Plan {
            ingests: 2,
            processors: 3,
            queries: 1,
        },
        &[],
    )
    .await
}

/// The middle of several times, printed for the table.
fn middle(fault: &str, mut times: Vec<Duration>, limit: Duration) {
    times.sort();
    let middle = times[times.len() / 2];
    eprintln!("recovery, {fault}: {middle:.1?} of {times:.1?}");
    assert!(middle < limit, "{fault}: {times:.1?}, at most {limit:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_visible_soon_after_a_processor_restarts_joins_or_dies_r1() {
    let mut deployment = deployment().await;
    let probe = Probe::start(&deployment);
    let (mut restarted, mut joined, mut killed) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let from = Instant::now();
        deployment.processors[0].server().signal(Signal::TERM);
        let mut server = deployment.processors[0].take();
        assert_eq!(server.ended(Duration::from_secs(30)).await, Some(0));
        deployment.processors[0].start().await;
        restarted.push(probe.worst(from, JOINED).await);

        let from = Instant::now();
        deployment.processors[1].take().kill();
        killed.push(probe.worst(from, JOINED).await);

        let from = Instant::now();
        deployment.processors[1].start().await;
        joined.push(probe.worst(from, JOINED).await);
    }
    probe.end().await;
    eprintln!("{restarted:?} {joined:?} {killed:?}");
    // Wider than on a machine with nothing else to do, and less than before: 26 s, 19 s and 30 s.
    middle("a planned restart", restarted, Duration::from_secs(10));
    middle("an added processor", joined, Duration::from_secs(10));
    middle("kill -9 of a processor", killed, Duration::from_secs(20));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_visible_soon_after_the_broker_is_back_r1() {
    let deployment = deployment().await;
    let probe = Probe::start(&deployment);
    let (mut killed, mut away, mut asleep) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for (time, times) in [(Duration::ZERO, &mut killed), (AWAY, &mut away)] {
            let back = broker_away(&deployment, time).await;
            times.push(probe.worst(back, REJOINED).await);
        }
        deployment.kafka.pause(0);
        tokio::time::sleep(ASLEEP).await;
        deployment.kafka.resume(0);
        asleep.push(probe.worst(Instant::now(), REJOINED).await);
    }
    probe.end().await;
    eprintln!("{killed:?} {away:?} {asleep:?}");
    // Before: 45 s, 90 s (after a minute) and 31 s.
    middle("kill -9 of the broker", killed, Duration::from_secs(10));
    let limit = Duration::from_secs(10);
    middle("a broker that was away for 15 s", away, limit);
    middle("a broker that slept for 15 s", asleep, limit);
}

/// Kills the broker, and starts it again after this long; gives the moment at which it is back.
async fn broker_away(deployment: &Deployment, time: Duration) -> Instant {
    tokio::task::block_in_place(|| deployment.kafka.kill(0));
    tokio::time::sleep(time).await;
    tokio::task::block_in_place(|| deployment.kafka.restart(0));
    Instant::now()
}
