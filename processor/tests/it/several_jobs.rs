//! Jobs over whole tables while two processors write into them and partitions change hands.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use eventlog::{Log, MemoryLog, Record};
use processor::GROUP;
use processor::jobs::{JobParts, Runner};
use rand::SeedableRng;
use rand::rngs::StdRng;
use schemas::ids::{AppId, ProjectId};
use schemas::job::{Rebuild, RebuildReport, Retention};
use schemas::price::PriceTable;
use schemas::record::RecordHeader;
use serde::Serialize;
use serde_json::{Value, json};
use store::Store;
use store::credentials::Credentials;
use store::jobs::{Asked, Job, JobKind, JobState, NewJob};
use store::testing::database;
use tokio::sync::watch;

use crate::processes::{Process, Topic, drained};
use crate::rebuild::events;

/// Tenths of a second for which there is load in each job.
const LOADED_ROUNDS: u32 = 60;

async fn report(log: &MemoryLog, events: Vec<Value>) {
    for (at, events) in events.chunks(10).enumerate() {
        let header = RecordHeader {
            project: ProjectId::new("p"),
            app: AppId::new(["a", "b", "c", "d"][at % 4]),
            received_at_ms: chrono::Utc::now().timestamp_millis(),
            events: events.len() as u32,
        };
        let headers = header.encode().into_iter();
        let record = Record {
            key: header.key().into(),
            headers: headers
                .map(|(name, value)| (name, Bytes::from(value)))
                .collect(),
            payload: json!({ "events": events }).to_string().into(),
        };
        log.append(record).await.unwrap();
    }
}

async fn ask(store: &Store, kind: JobKind, parameters: &impl Serialize) -> Job {
    let new = NewJob {
        kind,
        project_id: None,
        parameters: serde_json::to_string(parameters).unwrap(),
    };
    let now_ms = chrono::Utc::now().timestamp_millis();
    match store.jobs().create(new, now_ms).await.unwrap() {
        Asked::Made(job, _) => job,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retention_and_a_rebuild_over_two_processors_under_load_leave_every_run_right_p5_s1() {
    let mut random = StdRng::seed_from_u64(61);
    let database = database().await.unwrap();
    let (log, topic) = (MemoryLog::new(4), Topic::default());
    let credentials = Credentials::new((*database).clone());
    let project = ProjectId::new("p");
    credentials.put_project(&project, "a", &[]).await.unwrap();
    credentials.set_retention(&project, 3).await.unwrap();
    let prices: watch::Receiver<Arc<PriceTable>> = watch::channel(Arc::default()).1;
    let (stop, stopped) = watch::channel(false);
    let mut runners = Vec::new();
    let mut processes = Vec::new();
    for _ in 0..2 {
        let store = database.of_several().unwrap();
        let tables = Arc::new(store.clone());
        let process = Process::start(&topic, &log, tables, prices.clone());
        let runner = Runner::new(JobParts {
            store,
            log: Arc::new(log.clone()),
            barrier: process.barrier.clone(),
            prices: prices.clone(),
            piece_rows: 100,
            retention_minute: None,
        });
        runners.push(tokio::spawn(runner.run(stopped.clone())));
        processes.push(process);
    }
    report(&log, events(&mut random, 0..200)).await;
    drained(&log).await;
    let mut first = 150;
    for kind in [JobKind::Retention, JobKind::Rebuild] {
        let job = match kind {
            JobKind::Retention => ask(&database, kind, &Retention::default()).await,
            _ => ask(&database, kind, &Rebuild::default()).await,
        };
        let mut rounds = 0;
        let over = loop {
            let job = database.jobs().get(&job.job_id).await.unwrap().unwrap();
            if job.state.is_over() {
                break job;
            }
            // Days that are written all the time are left for the next night, after a while.
            if rounds < LOADED_ROUNDS {
                report(&log, events(&mut random, first..first + 4)).await;
                first += 3;
            }
            rounds += 1;
            match rounds {
                20 => log.lose_partitions(GROUP),
                40 => log.expel_members(GROUP),
                _ => {}
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        assert_eq!(over.state, JobState::Done, "{over:?}");
    }
    drained(&log).await;
    let check = ask(&database, JobKind::Check, &Rebuild::default()).await;
    let done = loop {
        let job = database.jobs().get(&check.job_id).await.unwrap().unwrap();
        if job.state.is_over() {
            break job;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let found: RebuildReport = serde_json::from_str(&done.report).unwrap();
    assert_eq!(found, RebuildReport::default());
    stop.send_replace(true);
    for runner in runners {
        runner.await.unwrap();
    }
    for process in processes {
        process.stop().await;
    }
}
