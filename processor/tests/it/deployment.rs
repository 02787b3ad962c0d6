//! A processor and a runner of jobs over a log in memory and the real engine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use control::Barrier;
use eventlog::{Log, MemoryLog, Record};
use processor::jobs::{JobParts, Runner};
use processor::{Dependencies, GROUP, Metrics, Processor, ProcessorConfig};
use schemas::ids::{AppId, ProjectId};
use schemas::price::PriceTable;
use schemas::record::RecordHeader;
use serde::Serialize;
use serde_json::{Value, json};
use store::jobs::{Asked, Job, JobKind, JobState, NewJob};
use store::testing::{TestDatabase, database};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Jobs of these tests are small; a machine under other load is slow.
const WITHIN: Duration = Duration::from_secs(300);
/// Least pause between two questions while a job is awaited.
const ASK_AGAIN: Duration = Duration::from_millis(10);

pub(crate) struct Deployment {
    pub(crate) store: TestDatabase,
    pub(crate) log: MemoryLog,
    pub(crate) prices: watch::Sender<Arc<PriceTable>>,
    pub(crate) piece_rows: u32,
    barrier: Barrier,
    stop: watch::Sender<bool>,
    processor: JoinHandle<()>,
    runner: Option<JoinHandle<()>>,
}

impl Drop for Deployment {
    fn drop(&mut self) {
        self.processor.abort();
        if let Some(runner) = self.runner.take() {
            runner.abort();
        }
    }
}

impl Deployment {
    /// Everything but the runner runs.
    pub(crate) async fn new() -> Self {
        let store = database().await.unwrap();
        let log = MemoryLog::new(4);
        let (prices, prices_now) = watch::channel(Arc::default());
        let barrier = Barrier::default();
        let config = ProcessorConfig {
            batch_wait: Duration::from_millis(30),
            retry_pause_max: Duration::from_millis(5),
            ..ProcessorConfig::default()
        };
        let parts = Dependencies {
            log: Arc::new(log.clone()),
            dead_letters: Arc::new(MemoryLog::new(1)),
            tables: Arc::new((*store).clone()),
            prices: prices_now,
            barrier: barrier.clone(),
        };
        let metrics = Metrics::new(&prometheus::Registry::new()).unwrap();
        let (stop, stopped) = watch::channel(false);
        let processor = Processor::new(config, parts, metrics);
        let processor = tokio::spawn(async move { processor.run(stopped).await.unwrap() });
        Self {
            store,
            log,
            prices,
            piece_rows: 1000,
            barrier,
            stop,
            processor,
            runner: None,
        }
    }

    /// Starts a runner, as a process that starts does.
    pub(crate) fn start_runner(&mut self) {
        let runner = Runner::new(JobParts {
            store: (*self.store).clone(),
            log: Arc::new(self.log.clone()),
            barrier: self.barrier.clone(),
            prices: self.prices.subscribe(),
            piece_rows: self.piece_rows,
            retention_minute: None,
        });
        let killed = self
            .runner
            .replace(tokio::spawn(runner.run(self.stop.subscribe())));
        assert!(killed.is_none_or(|runner| runner.is_finished()));
    }

    /// The runner ends wherever it stands: nothing it would do after that happens.
    pub(crate) async fn kill_runner(&mut self) {
        let runner = self.runner.take().unwrap();
        runner.abort();
        assert!(runner.await.is_err_and(|error| error.is_cancelled()));
    }

    /// Appends a record of events of one app.
    pub(crate) async fn report(&self, project: &str, app: &str, events: &[Value]) {
        self.report_with(project, app, events, None).await;
    }

    /// Appends a record of events of one app, with another header.
    pub(crate) async fn report_with(
        &self,
        project: &str,
        app: &str,
        events: &[Value],
        more: Option<(&str, Vec<u8>)>,
    ) {
        let header = RecordHeader {
            project: ProjectId::new(project),
            app: AppId::new(app),
            received_at_ms: chrono::Utc::now().timestamp_millis(),
            events: events.len() as u32,
        };
        let more = more.map(|(name, value)| (name.to_owned(), value));
        let headers = header.encode().into_iter().chain(more);
        let record = Record {
            key: header.key().into(),
            headers: headers
                .map(|(name, value)| (name, Bytes::from(value)))
                .collect(),
            payload: json!({ "events": events }).to_string().into(),
        };
        self.log.append(record).await.unwrap();
    }

    /// Waits until everything appended is stored and committed.
    pub(crate) async fn drained(&self) {
        let drained = async {
            loop {
                let lags = self.log.lag(GROUP).await.unwrap();
                if lags.iter().all(|lag| lag.committed >= lag.end) {
                    return;
                }
                assert!(!self.processor.is_finished(), "the processor ended");
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(WITHIN, drained).await.expect("drains");
    }

    /// Asks for a job.
    pub(crate) async fn ask(
        &self,
        kind: JobKind,
        project: Option<&str>,
        parameters: &impl Serialize,
    ) -> Job {
        let new = NewJob {
            kind,
            project_id: project.map(str::to_owned),
            parameters: serde_json::to_string(parameters).unwrap(),
        };
        let now_ms = chrono::Utc::now().timestamp_millis();
        match self.store.jobs().create(new, now_ms).await.unwrap() {
            Asked::Made(job, _) => job,
            other => panic!("{other:?}"),
        }
    }

    /// The job as it stands.
    pub(crate) async fn job(&self, job_id: &str) -> Job {
        self.store.jobs().get(job_id).await.unwrap().unwrap()
    }

    /// Waits until the job is over, which has to be well.
    pub(crate) async fn done(&self, job_id: &str) -> Job {
        let over = async {
            loop {
                let asked = Instant::now();
                let job = self.job(job_id).await;
                if job.state.is_over() {
                    return job;
                }
                // Questions leave the machine to the job.
                tokio::time::sleep((4 * asked.elapsed()).max(ASK_AGAIN)).await;
            }
        };
        let job = tokio::time::timeout(WITHIN, over).await.expect("ends");
        assert_eq!(job.state, JobState::Done, "{job:?}");
        job
    }
}
