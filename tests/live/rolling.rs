//! Processes of a deployment that come and go in order: a rolling upgrade, scaling up and down.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::deployment::{Deployment, Plan};
use crate::load::{EVENTS_PER_RUN, Load, Traffic};

/// What a rebalance may cost: the longest time in which nothing is stored while batches keep coming.
const STALL_MOST: Duration = Duration::from_secs(5);
/// Time for a process to end after SIGTERM.
const ENDS_WITHIN: Duration = Duration::from_secs(30);

/// Watches how many events are stored, until stopped; gives the longest standstill.
struct Watch {
    stop: tokio::sync::oneshot::Sender<()>,
    watching: tokio::task::JoinHandle<Duration>,
}

impl Watch {
    fn start(deployment: &Deployment) -> Self {
        let asking = deployment.asking();
        let (stop, mut stopped) = tokio::sync::oneshot::channel();
        let watching = tokio::spawn(async move {
            let (mut before, mut grown, mut longest) = (0, Instant::now(), Duration::ZERO);
            loop {
                let now: u64 = asking
                    .sql("SELECT count() FROM events")
                    .await
                    .parse()
                    .unwrap();
                longest = longest.max(grown.elapsed());
                if now > before {
                    (before, grown) = (now, Instant::now());
                }
                tokio::select! {
                    _ = &mut stopped => return longest,
                    () = tokio::time::sleep(Duration::from_millis(50)) => {}
                }
            }
        });
        Self { stop, watching }
    }

    async fn longest(self) -> Duration {
        let _ = self.stop.send(());
        self.watching.await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processors_that_leave_and_join_in_order_stop_nothing_for_long_timed() {
    let mut deployment = Deployment::start(Plan {
        ingests: 1,
        processors: 2,
        queries: 1,
    })
    .await;
    let load = Load::start_on(
        deployment.ingest_urls(),
        &deployment.key,
        Traffic::new("rebalance", 5, 3),
    );
    load.some_more(50).await;
    let mut stalls = Vec::new();
    for round in 0..4 {
        let place = round % 2;
        let watch = Watch::start(&deployment);
        let tier = &mut deployment.processors[place];
        tier.server().signal(Signal::TERM);
        let mut server = tier.take();
        assert_eq!(server.ended(ENDS_WITHIN).await, Some(0), "ends in order");
        load.some_more(100).await;
        tier.start().await;
        deployment.processors[place].server().ready().await;
        load.some_more(200).await;
        stalls.push(watch.longest().await);
    }
    eprintln!("longest standstills while a processor left and joined: {stalls:?}");
    // The middle counts, so that a pause of a busy machine does not decide; and none goes on for long.
    stalls.sort();
    let (middle, worst) = (stalls[stalls.len() / 2 - 1], stalls[stalls.len() - 1]);
    assert!(middle < STALL_MOST && worst < 6 * STALL_MOST, "{stalls:?}");
    let accepted = load.finish().await;
    accepted.assert_found_once(deployment.query()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_of_every_process_loses_and_doubles_nothing_r1() {
    let mut deployment = Deployment::start(Plan {
        ingests: 2,
        processors: 2,
        queries: 1,
    })
    .await;
    let load = Load::start_on(
        deployment.ingest_urls(),
        &deployment.key,
        Traffic::new("rolling", 7, 3),
    );
    load.some_more(50).await;
    // The order of an upgrade: the tables first, then who reads the log, then who writes it, then who is asked.
    for place in 0..2 {
        restart(&mut deployment, &load, ("processor", place)).await;
    }
    for place in 0..2 {
        restart(&mut deployment, &load, ("ingest", place)).await;
    }
    restart(&mut deployment, &load, ("query", 0)).await;
    let accepted = load.finish().await;
    accepted.assert_found_once(deployment.query()).await;
    let events = deployment
        .sql("SELECT count() FROM events FINAL WHERE app_id = 'rolling'")
        .await;
    let expected = accepted.runs.len() * EVENTS_PER_RUN;
    assert_eq!(events, expected.to_string(), "accepted = stored (P4)");
}

async fn restart(deployment: &mut Deployment, load: &Load, (role, place): (&str, usize)) {
    let tier = &mut deployment.of(role)[place];
    tier.server().signal(Signal::TERM);
    let mut server = tier.take();
    assert_eq!(
        server.ended(ENDS_WITHIN).await,
        Some(0),
        "{} ends in order",
        tier.name
    );
    tier.start().await;
    tier.server().ready().await;
    if role == "ingest" {
        load.follow_as(place, tier.server());
    }
    load.some_more(50).await;
}
