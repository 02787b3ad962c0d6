//! The worker: what is committed when, and what happens to what cannot be stored or read.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use control::Barrier;
use eventlog::{Fault, Log, MemoryLog, Record};
use processor::{
    Dependencies, GROUP, HotView, Metrics, Processor, ProcessorConfig, ProcessorError, Status,
    Tables,
};
use schemas::ids::{AppId, ProjectId};
use schemas::record::RecordHeader;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::memory_tables::MemoryTables;

pub(crate) struct Running {
    log: MemoryLog,
    pub(crate) dead_letters: MemoryLog,
    pub(crate) metrics: Metrics,
    pub(crate) hot: HotView,
    pub(crate) status: watch::Receiver<Status>,
    stop: watch::Sender<bool>,
    task: JoinHandle<Result<(), ProcessorError>>,
}

pub(crate) fn start(log: &MemoryLog, tables: Arc<dyn Tables>) -> Running {
    start_with(log, tables, 2)
}

pub(crate) fn start_with(log: &MemoryLog, tables: Arc<dyn Tables>, workers: usize) -> Running {
    let metrics = Metrics::new(&prometheus::Registry::new()).unwrap();
    let config = ProcessorConfig {
        workers,
        batch_wait: Duration::from_millis(5),
        retry_pause_max: Duration::from_millis(5),
        ..ProcessorConfig::default()
    };
    let dead_letters = MemoryLog::new(1);
    let processor = Processor::new(
        config,
        Dependencies {
            log: Arc::new(log.clone()),
            dead_letters: Arc::new(dead_letters.clone()),
            tables,
            prices: watch::channel(Arc::default()).1,
            barrier: Barrier::default(),
        },
        metrics.clone(),
    );
    let (stop, stopped) = watch::channel(false);
    let (status, hot) = (processor.status(), processor.hot_runs());
    let task = tokio::spawn(processor.run(stopped));
    Running {
        log: log.clone(),
        dead_letters,
        metrics,
        hot,
        status,
        stop,
        task,
    }
}

impl Running {
    /// Waits until everything appended is committed.
    pub(crate) async fn drained(&self) {
        let drained = async {
            while self
                .log
                .lag(GROUP)
                .await
                .unwrap()
                .iter()
                .any(|lag| lag.committed < lag.end)
            {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), drained)
            .await
            .expect("drains");
    }

    /// What it ended with, by itself.
    pub(crate) async fn ended(self) -> Result<(), ProcessorError> {
        self.task.await.unwrap()
    }

    pub(crate) async fn stop(self) -> Result<(), ProcessorError> {
        self.stop.send_replace(true);
        self.task.await.unwrap()
    }
}

pub(crate) fn event(run: usize) -> Value {
    json!({"name": "agent_end", "run_id": format!("r{run}"), "timestamp": 1_795_132_800_000i64 + run as i64})
}

pub(crate) fn record(events: &[Value]) -> Record {
    let header = RecordHeader {
        project: ProjectId::new("p"),
        app: AppId::new("a"),
        received_at_ms: 1_795_132_900_000,
        events: events.len() as u32,
    };
    Record {
        key: header.key().into(),
        headers: header
            .encode()
            .into_iter()
            .map(|(name, value)| (name, Bytes::from(value)))
            .collect(),
        payload: json!({ "events": events }).to_string().into(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_appended_is_stored_and_counted_p4() {
    let (log, tables) = (MemoryLog::new(4), MemoryTables::default());
    let running = start(&log, Arc::new(tables.clone()));
    for run in 0..100 {
        log.append(record(&[event(run), event(run + 100)]))
            .await
            .unwrap();
    }
    running.drained().await;
    assert_eq!(
        (tables.event_count(), tables.visible_runs().len()),
        (200, 200)
    );
    let metrics = running.metrics.clone();
    running.stop().await.unwrap();
    assert_eq!(metrics.stored_events.get(), 200);
    assert_eq!(metrics.dead_lettered_total(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_committed_before_it_is_stored_p1() {
    let (log, tables) = (MemoryLog::new(1), MemoryTables::default());
    tables.set_away(true);
    let mut running = start(&log, Arc::new(tables.clone()));
    log.append(record(&[event(1)])).await.unwrap();
    // The look-up of known runs at the start already waits for the store.
    running
        .status
        .wait_for(|status| *status == Status::Waiting)
        .await
        .unwrap();
    assert!(
        running
            .log
            .lag(GROUP)
            .await
            .unwrap()
            .iter()
            .all(|lag| lag.committed == 0)
    );
    assert!(running.metrics.store_retries.get() > 0);
    tables.set_away(false);
    running.drained().await;
    assert_eq!(*running.status.borrow_and_update(), Status::Running);
    // Away again, now with a micro-batch in hand; when stopped, it leaves the batch in the log.
    tables.set_away(true);
    log.append(record(&[event(2)])).await.unwrap();
    running
        .status
        .wait_for(|status| *status == Status::Waiting)
        .await
        .unwrap();
    running.stop().await.unwrap();
    assert_eq!(log.committed(GROUP), [1]);
    tables.set_away(false);
    let running = start(&log.restart(), Arc::new(tables.clone()));
    running.drained().await;
    assert_eq!(tables.event_count(), 2, "(R1)");
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_read_goes_to_the_dead_letters_once_and_the_rest_flows_p1() {
    let (log, tables) = (MemoryLog::new(1), MemoryTables::default());
    let running = start(&log, Arc::new(tables.clone()));
    let mut not_json = record(&[event(1)]);
    not_json.payload = Bytes::from_static(b"{");
    let mut no_header = record(&[event(2)]);
    no_header.headers.retain(|(name, _)| name != "project");
    for record in [
        record(&[event(3)]),
        not_json,
        no_header,
        record(&[event(4), json!({"name": "x"})]),
    ] {
        log.append(record).await.unwrap();
    }
    running.drained().await;
    assert_eq!(tables.visible_runs().len(), 2);
    let letters = running.dead_letters.contents();
    let header = |at: usize, name: &str| {
        let headers = &letters[at].record.headers;
        let found = headers.iter().rev().find(|(key, _)| key == name);
        String::from_utf8(found.unwrap().1.to_vec()).unwrap()
    };
    let reasons: Vec<String> = (0..letters.len())
        .map(|at| header(at, "dead_reason"))
        .collect();
    assert_eq!(
        reasons,
        [
            "the body is not JSON at byte 1",
            "header `project` is missing or not understood",
            "events[1].run_id is required"
        ]
    );
    assert_eq!(
        (header(0, "dead_partition"), header(2, "dead_offset")),
        ("0".into(), "3".into())
    );
    assert_eq!(&letters[2].record.payload[..], br#"{"name":"x"}"#);
    assert_eq!(
        (
            running.metrics.stored_events.get(),
            running.metrics.dead_lettered_total()
        ),
        (2, 3),
        "(P4)"
    );
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repetition_lost_partitions_and_failing_commits_change_nothing_p2() {
    let (log, tables) = (MemoryLog::new(2), MemoryTables::default());
    let running = start(&log, Arc::new(tables.clone()));
    for run in 0..50 {
        log.append(record(&[event(run)])).await.unwrap();
        match run % 10 {
            3 => log.redeliver(),
            5 => log.lose_partitions(GROUP),
            7 => log.fail_next_commit(Fault::Unavailable),
            8 => log.fail_next_commit(Fault::UnavailableYetDone),
            9 => log.fail_next_read(Fault::Unavailable),
            _ => {}
        }
    }
    running.drained().await;
    assert_eq!(
        (tables.event_count(), tables.visible_runs().len()),
        (50, 50)
    );
    tables.assert_one_row_per_run();
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_retry_cannot_mend_stops_the_processor_and_stays_in_the_log() {
    let (log, tables) = (MemoryLog::new(1), MemoryTables::default());
    let running = start(&log, Arc::new(tables.clone()));
    // Both workers meet it: the remaining one takes the partition over.
    tables.set_refusing(true);
    log.append(record(&[event(1)])).await.unwrap();
    let outcome = running.task.await.unwrap();
    assert!(
        matches!(outcome, Err(ProcessorError::Store(_))),
        "{outcome:?}"
    );
    assert_eq!(*running.status.borrow(), Status::Stopped);
    assert_eq!(log.committed(GROUP), [0]);
    tables.set_refusing(false);
    let again = start(&log.restart(), Arc::new(tables.clone()));
    again.drained().await;
    assert_eq!(tables.event_count(), 1);
    again.stop().await.unwrap();
}
