//! Two processors of one deployment: partitions that change hands, and a log that gets more of them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use eventlog::{Log, MemoryLog, Record};
use processor::{GROUP, Tables};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use schemas::ids::{AppId, ProjectId};
use schemas::price::PriceTable;
use schemas::record::RecordHeader;
use serde_json::json;
use tokio::sync::watch;

use crate::fold::Reported;
use crate::memory_tables::MemoryTables;
use crate::processes::{Process, Topic, drained};
use crate::reference;

/// Ten milliseconds before a midnight: runs' starts move from one day's partition to the other.
const BASE_MS: i64 = 1_795_132_799_990;
const APPS: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];

pub(crate) fn any_event(random: &mut StdRng) -> Reported {
    let names = [
        "agent_start",
        "agent_end",
        "tool_error",
        "saved",
        "feedback",
    ];
    let run = random.random_range(0..12);
    let agent = if run % 2 == 0 { "planner" } else { "writer" };
    let parent = random.random_range(0..16);
    Reported {
        project: ["p", "q"][random.random_range(0..2)],
        app: APPS[random.random_range(0..APPS.len())],
        event: json!({
            "name": names[random.random_range(0..names.len())], "run_id": format!("r{run}"),
            "parent_run_id": (parent < 12).then(|| format!("r{parent}")),
            "timestamp": BASE_MS + random.random_range(0..20), "agent": agent,
            "prompt_tokens": run, "rating": "positive",
        }),
    }
}

pub(crate) fn record(reported: &Reported) -> Record {
    let header = RecordHeader {
        project: ProjectId::new(reported.project),
        app: AppId::new(reported.app),
        received_at_ms: BASE_MS + 1000,
        events: 1,
    };
    let headers = header.encode().into_iter();
    Record {
        key: header.key().into(),
        headers: headers
            .map(|(name, value)| (name, Bytes::from(value)))
            .collect(),
        payload: json!({ "events": [reported.event] }).to_string().into(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_that_change_hands_and_get_more_under_load_lose_and_double_nothing_p2_p3() {
    let seed = rand::random::<u64>();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (log, tables, topic) = (MemoryLog::new(4), MemoryTables::default(), Topic::default());
    log.set_lease(Duration::from_secs(2));
    let prices: watch::Receiver<Arc<PriceTable>> = watch::channel(Arc::default()).1;
    let start = || Process::start(&topic, &log, Arc::new(tables.clone()), prices.clone());
    let (first, second) = (start(), start());
    let mut events = Vec::new();
    let mut rounds = 0;
    let mut killed = None;
    // Some seconds of load, until all processes place keys by all partitions, and a while longer.
    let mut left = 100;
    while left > 0 {
        for _ in 0..5 {
            events.push(any_event(&mut random));
            log.append(record(&events[events.len() - 1])).await.unwrap();
        }
        rounds += 1;
        match rounds {
            300 => log.lose_partitions(GROUP),
            400 => log.expel_members(GROUP),
            450 => log.redeliver(),
            500 => log.grow(8),
            600 => log.expel_members(GROUP),
            700 => killed = Some(start()),
            _ => {}
        }
        if rounds == 900
            && let Some(third) = killed.take()
        {
            third.kill().await;
        }
        if tables.placed_by().await.unwrap() == Some(8) && rounds > 900 {
            left -= 1;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drained(&log).await;
    tables.assert_one_row_per_run();
    assert_eq!(tables.event_count(), reference::distinct(&events));
    let expected = reference::fold(&events, &[]);
    let stored = tables.visible_runs();
    assert_eq!(stored.len(), expected.len());
    for (run, columns) in &expected {
        assert_eq!(&stored[run], columns, "{run:?}, seed {seed}");
    }
    let moved = first.metrics.moved_records.get() + second.metrics.moved_records.get();
    assert!(moved > 0, "records lay elsewhere for a while");
    let ends = log.lag(GROUP).await.unwrap();
    assert!(ends.iter().all(|lag| lag.end > 0), "{ends:?}");
    first.stop().await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_one_process_holds_the_barrier_no_other_stores_anything() {
    let (log, tables, topic) = (MemoryLog::new(2), MemoryTables::default(), Topic::default());
    let prices: watch::Receiver<Arc<PriceTable>> = watch::channel(Arc::default()).1;
    let start = || Process::start(&topic, &log, Arc::new(tables.clone()), prices.clone());
    let (first, second) = (start(), start());
    let mut random = StdRng::seed_from_u64(7);
    let mut append = async || {
        log.append(record(&any_event(&mut random))).await.unwrap();
    };
    append().await;
    drained(&log).await;
    let mut guard = first.barrier.acquire().await;
    let before = tables.event_count();
    for _ in 0..50 {
        append().await;
    }
    // Longer than one message holds it.
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert_eq!(tables.event_count(), before);
    assert!(guard.remaining() > Duration::from_secs(5));
    guard.tables_replaced();
    drop(guard);
    drained(&log).await;
    assert!(tables.event_count() > before);

    // The barrier of a process that dies expires, and the others drop what they had cached.
    let guard = second.barrier.acquire().await;
    std::mem::forget(guard);
    second.kill().await;
    let lookups = tables.lookups();
    let mut random = StdRng::seed_from_u64(7);
    log.append(record(&any_event(&mut random))).await.unwrap();
    drained(&log).await;
    assert!(tables.lookups() > lookups);
    first.stop().await;
}
