//! Partitions are added while events arrive and processors are killed, restarted and added, in seeded variations: each
//! ends with a lag of 0 within [`WITHIN`], an owner for every partition, and rows equal to a reference (P1, P2, P3, R1).
//!
//! `make test` runs one variation, `make test-variations` runs twenty on one deployment, whose topic keeps growing.

use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use reqwest::StatusCode;
use rustix::process::Signal;

use crate::deployment::{Deployment, Plan};
use crate::load::seed;

mod evidence;
mod expected;
mod senders;

use expected::Expected;
use senders::Senders;

/// How many variations run.
const VARIATIONS_VARIABLE: &str = "SPINDLE_TEST_VARIATIONS";
/// From the last accepted event to a lag of 0, and to an owner for every partition.
const WITHIN: Duration = Duration::from_secs(60);
/// Time for a processor to end after SIGTERM.
const ENDS_WITHIN: Duration = Duration::from_secs(30);
/// Partitions of the topic at first: fewer than members, so that some own nothing.
const PARTITIONS: usize = 4;
/// Most partitions that one variation adds.
const ADDED_MAX: usize = 3;
/// Most batches that are accepted between two steps: two to three seconds.
const BETWEEN_MAX: usize = 200;

/// What happens at one moment of a variation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// So many partitions are added.
    Grow(usize),
    /// `kill -9` of a processor, for good.
    Kill,
    /// SIGTERM to another one.
    Terminate,
    /// Its end is awaited, and it is started again.
    Restart,
    /// A processor is added.
    Add,
}

/// The steps of one variation in their order.
fn steps(random: &mut StdRng) -> Vec<Step> {
    let mut steps = vec![Step::Kill, Step::Terminate, Step::Restart, Step::Add];
    let added = random.random_range(1..=ADDED_MAX);
    let at_once = random.random_range(1..=added);
    let grown = [at_once, added - at_once].into_iter();
    steps.extend(grown.filter(|added| *added > 0).map(Step::Grow));
    steps.shuffle(random);
    let place = |step| steps.iter().position(|found| *found == step);
    if let (Some(terminate), Some(restart)) = (place(Step::Terminate), place(Step::Restart))
        && restart < terminate
    {
        steps.swap(restart, terminate);
    }
    steps
}

/// The deployment, and how many partitions its topic has.
struct Stage {
    deployment: Deployment,
    partitions: usize,
    /// The processor that has received SIGTERM.
    terminated: Option<String>,
}

impl Stage {
    async fn carry_out(&mut self, step: Step, random: &mut StdRng) {
        match step {
            Step::Grow(added) => {
                self.partitions += added;
                let kafka = &self.deployment.kafka;
                kafka.grow("spindle.events", self.partitions).await;
            }
            Step::Kill => {
                let place = self.running(random);
                self.deployment.kill_processor(place);
            }
            Step::Terminate => {
                let place = self.running(random);
                let tier = &self.deployment.processors[place];
                tier.server().signal(Signal::TERM);
                self.terminated = Some(tier.name.clone());
            }
            Step::Restart => {
                let terminated = self.terminated.take();
                let mut processors = self.deployment.processors.iter_mut();
                let tier = processors.find(|tier| Some(&tier.name) == terminated.as_ref());
                let tier = tier.expect("SIGTERM comes before the restart");
                let code = tier.take().ended(ENDS_WITHIN).await;
                assert_eq!(code, Some(0), "{} ends in order", tier.name);
                tier.start().await;
            }
            Step::Add => self.deployment.add_processor().await,
        }
    }

    /// Any processor that is not about to end.
    fn running(&self, random: &mut StdRng) -> usize {
        let processors = self.deployment.processors.iter().enumerate();
        let running = processors.filter(|(_, tier)| Some(&tier.name) != self.terminated.as_ref());
        let running: Vec<usize> = running.map(|(place, _)| place).collect();
        running[random.random_range(0..running.len())]
    }

    /// Waits until the lag over all partitions is 0. The query process caches the lag for a second, so it is asked for
    /// only once no more events are sent.
    async fn drained(&self) {
        let query = self.deployment.query();
        let is_drained = async || {
            // A lag of partitions that it does not know yet would be missing.
            let known = of_events(&query.metrics().await, "spindle_eventlog_partitions");
            if known != self.partitions {
                return None;
            }
            let (status, found) = query.get_as(&query.token, "/api/internal/pipeline").await;
            (status == StatusCode::OK && found["log"]["lag_records"] == 0).then_some(())
        };
        query.until("the lag is 0", WITHIN, is_drained).await;
    }

    /// Waits until all processors place keys by the number of partitions, and each partition has an owner.
    async fn owned(&self, within: Duration) {
        let placed = "SELECT value FROM deployment FINAL WHERE name = 'log.partitions'";
        let is_owned = async || {
            let mut owned = 0;
            for tier in &self.deployment.processors {
                let metrics = tier.server().metrics().await;
                owned += of_events(&metrics, "spindle_eventlog_assigned_partitions");
            }
            let placed = self.deployment.sql(placed).await;
            (owned == self.partitions && placed == self.partitions.to_string()).then_some(())
        };
        let query = self.deployment.query();
        let what = "every partition has an owner";
        query.until(what, within, is_owned).await;
    }
}

/// A metric of the topic of events; 0 if the process does not have it yet.
fn of_events(metrics: &str, name: &str) -> usize {
    let name = format!("{name}{{topic=\"events\"}} ");
    let mut values = metrics.lines().filter_map(|line| line.strip_prefix(&name));
    values.next().map_or(0, |value| value.parse().unwrap())
}

/// Carries out one variation; gives what it stored, and the time from the last accepted event to a lag of 0.
async fn vary(stage: &mut Stage, seed: u64) -> (Expected, Duration) {
    let mut random = StdRng::seed_from_u64(seed);
    let steps = steps(&mut random);
    eprintln!("{} partitions, then {steps:?}", stage.partitions);
    let began = Instant::now();
    let urls = stage.deployment.ingest_urls();
    let senders = Senders::start(&urls, &stage.deployment.key, seed);
    for step in steps {
        senders.some_more(random.random_range(0..BETWEEN_MAX)).await;
        stage.carry_out(step, &mut random).await;
    }
    senders.some_more(random.random_range(0..BETWEEN_MAX)).await;
    let expected = senders.finish().await;
    let ended = Instant::now();
    stage.drained().await;
    let drained = ended.elapsed();
    let until = ended + WITHIN;
    expected.assert_stored(&stage.deployment, until).await;
    stage.owned(WITHIN.saturating_sub(ended.elapsed())).await;
    let settled = ended.elapsed();
    eprintln!(
        "{} events of {} runs in {:.1?}: lag 0 after {drained:.1?}, {} partitions owned after {settled:.1?}",
        expected.events(),
        expected.runs(),
        ended - began,
        stage.partitions
    );
    (expected, drained)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn added_partitions_and_processors_that_come_and_go_leave_no_lag_r1_timed() {
    let variations = std::env::var(VARIATIONS_VARIABLE).map_or(1, |text| text.parse().unwrap());
    let first = seed();
    let plan = Plan {
        ingests: 2,
        processors: 4,
        queries: 1,
    };
    let partitions = PARTITIONS.to_string();
    let settings = [("kafka.partitions", partitions.as_str())];
    let mut stage = Stage {
        deployment: Deployment::start_with(plan, &settings).await,
        partitions: PARTITIONS,
        terminated: None,
    };
    let (mut all, mut times) = (Vec::new(), Vec::new());
    for variation in 0..variations {
        let seed = first.wrapping_add(variation);
        eprintln!(
            "variation {} of {variations}: SPINDLE_TEST_SEED={seed}",
            variation + 1
        );
        let (expected, drained) = vary(&mut stage, seed).await;
        all.push(expected);
        times.push(drained);
    }
    // What came later has changed nothing.
    for expected in all {
        expected
            .assert_stored(&stage.deployment, Instant::now())
            .await;
    }
    times.sort();
    let (least, most) = (times[0], times[times.len() - 1]);
    let middle = times[times.len() / 2];
    eprintln!("lag 0 after {least:.1?} at least, {middle:.1?} in the middle, {most:.1?} at most");
}
