//! `kill -9` of the server, and of the engine alone, at random moments under load (R1, L1, P1).

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::harness::{Setup, kill};
use crate::load::{Load, Traffic, seed};

const ROUNDS: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_event_answered_with_200_is_there_exactly_once_whatever_is_killed_r1() {
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let setup = Setup::new();
    let mut server = setup.start_ready().await;
    let load = Load::start(&server, Traffic::new("kills", seed, 3));
    let (mut servers, mut engines) = (0, 0);
    for round in 0..ROUNDS {
        tokio::time::sleep(Duration::from_millis(random.random_range(20..700))).await;
        if random.random_bool(0.5) {
            servers += 1;
            server.kill();
            server = setup.start().await;
            load.follow(&server);
        } else if let Some(engine) = server.engine_pid() {
            engines += 1;
            kill(engine, rustix::process::Signal::KILL);
        }
        let before = load.accepted();
        server
            .until(
                &format!("events are accepted again in round {round}"),
                Duration::from_secs(60),
                async || (load.accepted() > before).then_some(()),
            )
            .await;
    }
    server.ready().await;
    let accepted = load.finish().await;
    eprintln!(
        "killed the server {servers} and the engine {engines} times; {} runs accepted, {} batches sent again",
        accepted.runs.len(),
        accepted.sent_again
    );
    accepted.assert_found_once(&server).await;
}
