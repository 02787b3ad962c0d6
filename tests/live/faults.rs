//! Thirty rounds of what happens to deployments: processes killed and put to sleep, servers away, networks cut, one
//! after another and under load. Afterwards everything that was accepted is there, once (L1, P1, P2, P3, R1).

use std::time::{Duration, Instant};

use eventlog::conformance::proxy::Network;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rustix::process::Signal;

use crate::deployment::{Deployment, Plan, SESSION_TIMEOUT, Tier};
use crate::harness::kill;
use crate::load::{EVENTS_PER_RUN, Load, Traffic, seed};

/// How long ClickHouse is away when it is away for long: several times the session and the longest backoff.
const LONG: Duration = Duration::from_secs(25);
/// Pause of a sender between two batches. The rounds take minutes: a denser load only grows the tables.
const PAUSE: Duration = Duration::from_millis(60);
/// After this long without an accepted event something does not come back by itself.
const ACCEPTS_AGAIN_WITHIN: Duration = Duration::from_secs(60);

/// Whose connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Ingest,
    Processor,
    Query,
}

/// What happens in one round.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// `kill -9`, and a start.
    Killed(Who),
    /// A processor sleeps for longer than its session lasts, and wakes.
    Asleep,
    /// `kill -9` of the broker, and a start.
    BrokerKilled,
    /// `kill -9` of ClickHouse; it is started again.
    EngineKilled,
    /// Between a process and the broker.
    KafkaCut(Who, Network),
    /// Between a process and ClickHouse.
    ClickHouseCut(Who, Network),
    /// No process reaches ClickHouse for [`LONG`].
    ClickHouseAway,
}

/// Every kind at least once, those that hurt processors more often.
fn rounds(random: &mut StdRng) -> Vec<Fault> {
    use Network::{Refused, Silent};
    let mut rounds = vec![
        Fault::Killed(Who::Ingest),
        Fault::Killed(Who::Ingest),
        Fault::Killed(Who::Ingest),
        Fault::Killed(Who::Processor),
        Fault::Killed(Who::Processor),
        Fault::Killed(Who::Processor),
        Fault::Killed(Who::Processor),
        Fault::Killed(Who::Processor),
        Fault::Killed(Who::Query),
        Fault::Asleep,
        Fault::Asleep,
        Fault::Asleep,
        Fault::Asleep,
        Fault::Asleep,
        Fault::BrokerKilled,
        Fault::BrokerKilled,
        Fault::EngineKilled,
        Fault::EngineKilled,
        Fault::EngineKilled,
        Fault::KafkaCut(Who::Ingest, Refused),
        Fault::KafkaCut(Who::Ingest, Silent),
        Fault::KafkaCut(Who::Processor, Refused),
        Fault::KafkaCut(Who::Processor, Silent),
        Fault::KafkaCut(Who::Processor, Silent),
        Fault::KafkaCut(Who::Query, Silent),
        Fault::ClickHouseCut(Who::Ingest, Silent),
        Fault::ClickHouseCut(Who::Processor, Refused),
        Fault::ClickHouseCut(Who::Processor, Silent),
        Fault::ClickHouseCut(Who::Query, Refused),
        Fault::ClickHouseAway,
    ];
    rounds.shuffle(random);
    rounds
}

fn tier<'a>(
    deployment: &'a mut Deployment,
    who: Who,
    random: &mut StdRng,
) -> (usize, &'a mut Tier) {
    let tiers = match who {
        Who::Ingest => &mut deployment.ingests,
        Who::Processor => &mut deployment.processors,
        Who::Query => &mut deployment.queries,
    };
    let place = random.random_range(0..tiers.len());
    (place, &mut tiers[place])
}

async fn happen(deployment: &mut Deployment, fault: Fault, load: &Load, random: &mut StdRng) {
    let short = Duration::from_millis(random.random_range(200..2500));
    // Half of the cuts outlast the session.
    let cut = if random.random_bool(0.5) {
        SESSION_TIMEOUT + short
    } else {
        short
    };
    match fault {
        Fault::Killed(who) => {
            let (place, tier) = tier(deployment, who, random);
            tier.take().kill();
            tokio::time::sleep(short).await;
            tier.start().await;
            if who == Who::Ingest {
                load.follow_as(place, tier.server());
            }
        }
        Fault::Asleep => {
            let (_, tier) = tier(deployment, Who::Processor, random);
            tier.server().signal(Signal::STOP);
            tokio::time::sleep(SESSION_TIMEOUT + short).await;
            tier.server().signal(Signal::CONT);
        }
        Fault::BrokerKilled => {
            tokio::task::block_in_place(|| deployment.kafka.kill(0));
            tokio::time::sleep(short).await;
            tokio::task::block_in_place(|| deployment.kafka.restart(0));
        }
        Fault::EngineKilled => {
            if let Some(engine) = deployment.engine.process_id() {
                kill(engine, Signal::KILL);
            }
        }
        Fault::KafkaCut(who, network) => {
            let (_, tier) = tier(deployment, who, random);
            tier.kafka.disturb(network, cut).await;
        }
        Fault::ClickHouseCut(who, network) => {
            let (_, tier) = tier(deployment, who, random);
            tier.clickhouse.disturb(network, cut).await;
        }
        Fault::ClickHouseAway => {
            for tier in deployment.tiers() {
                tier.clickhouse.set(Network::Refused);
            }
            tokio::time::sleep(LONG).await;
            for tier in deployment.tiers() {
                tier.clickhouse.set(Network::Whole);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_dies_sleeps_or_is_cut_off_every_accepted_event_is_there_once_r1() {
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let mut deployment = Deployment::start(Plan {
        ingests: 2,
        processors: 2,
        queries: 1,
    })
    .await;
    let load = Load::start_on(
        deployment.ingest_urls(),
        &deployment.key,
        Traffic {
            pause: PAUSE,
            ..Traffic::new("faults", seed, 2)
        },
    );
    let begun = Instant::now();
    for (round, fault) in rounds(&mut random).into_iter().enumerate() {
        tokio::time::sleep(Duration::from_millis(random.random_range(20..900))).await;
        eprintln!(
            "{:>4} s, round {round}: {fault:?}",
            begun.elapsed().as_secs()
        );
        happen(&mut deployment, fault, &load, &mut random).await;
        let before = load.accepted();
        let deadline = Instant::now() + ACCEPTS_AGAIN_WITHIN;
        while load.accepted() == before {
            assert!(
                Instant::now() < deadline,
                "nothing is accepted after round {round}, {fault:?}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    deployment.ready().await;
    let accepted = load.finish().await;
    eprintln!(
        "{} runs accepted, {} batches sent again",
        accepted.runs.len(),
        accepted.sent_again
    );
    accepted.assert_found_once(deployment.query()).await;
    let events = deployment
        .sql("SELECT count() FROM events FINAL WHERE app_id = 'faults'")
        .await;
    let expected = accepted.runs.len() * EVENTS_PER_RUN;
    assert_eq!(events, expected.to_string(), "accepted = stored (P4)");
    let check = deployment.query().command(&["check"]);
    assert!(
        check.status.success(),
        "every run equals the fold of its events (P5): {}{}",
        String::from_utf8_lossy(&check.stdout),
        String::from_utf8_lossy(&check.stderr)
    );
}
