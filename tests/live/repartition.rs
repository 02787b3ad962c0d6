//! A topic that gets more partitions while events keep coming (L2, P2, P3).

use std::time::{Duration, Instant};

use crate::deployment::{Deployment, PARTITIONS, Plan};
use crate::load::{EVENTS_PER_RUN, Load, Traffic};

/// Pause of a sender between two batches.
const PAUSE: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twice_as_many_partitions_under_load_lose_and_double_nothing_p2_p3() {
    let deployment = Deployment::start(Plan {
        ingests: 2,
        processors: 2,
        queries: 1,
    })
    .await;
    // Apps that stay where they were and apps that move.
    let mut loads = Vec::new();
    for (at, app) in ["here", "there", "elsewhere", "nowhere"]
        .into_iter()
        .enumerate()
    {
        let urls = deployment.ingest_urls();
        loads.push(Load::start_on(
            urls,
            &deployment.key,
            Traffic {
                pause: PAUSE,
                ..Traffic::new(app, at as u64, 1)
            },
        ));
    }
    some_more(&loads, 40).await;
    deployment
        .kafka
        .grow("spindle.events", PARTITIONS * 2)
        .await;
    let placed = "SELECT value FROM deployment FINAL WHERE name = 'log.partitions'";
    let deadline = Instant::now() + Duration::from_secs(60);
    while deployment.sql(placed).await != (PARTITIONS * 2).to_string() {
        assert!(
            Instant::now() < deadline,
            "no process noticed the new partitions"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    some_more(&loads, 40).await;
    let mut all = Vec::new();
    for load in loads {
        all.push(load.finish().await);
    }
    for accepted in all {
        accepted.assert_found_once(deployment.query()).await;
        let statement = format!(
            "SELECT count() FROM events FINAL WHERE app_id = '{}'",
            accepted.app
        );
        let expected = accepted.runs.len() * EVENTS_PER_RUN;
        assert_eq!(deployment.sql(&statement).await, expected.to_string());
    }
}

async fn some_more(loads: &[Load], runs: usize) {
    for load in loads {
        load.some_more(runs).await;
    }
}
