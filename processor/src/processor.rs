//! The processor as a whole: its workers, its state, its end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use eventlog::Log;
use schemas::price::PriceTable;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::gate::Gate;
use crate::hot::{HotRuns, HotView};
use crate::known::Known;
use crate::lag::LagAges;
use crate::metrics::Metrics;
use crate::patient::Patient;
use crate::tables::Tables;
use crate::worker::Worker;
use crate::{GROUP, ProcessorConfig, ProcessorError};

/// How often the lag is looked at.
const LAG_INTERVAL: Duration = Duration::from_secs(1);

/// How often a process learns which runs others wrote.
const LEARN_INTERVAL: Duration = Duration::from_secs(60);

/// What the processor is doing, for the readiness of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// Reading from the tables which runs there are.
    Starting,
    /// Processing, or waiting for something to process.
    Running,
    /// The store is away; what is in the log waits.
    Waiting,
    /// What the other processors say is not heard; what is in the log waits.
    Deaf,
    /// Ended: asked to, or by an error that needs a person.
    Stopped,
}

/// What a processor works with.
#[derive(Clone)]
pub struct Parts {
    /// The log of events.
    pub log: Arc<dyn Log>,
    /// The log for what cannot be processed.
    pub dead_letters: Arc<dyn Log>,
    /// Where the rows go.
    pub tables: Arc<dyn Tables>,
    /// The price table in force; a change acts on the next step.
    pub prices: watch::Receiver<Arc<PriceTable>>,
    /// Lets others work on whole tables between two steps.
    pub gate: Gate,
}

/// Consumes a log of events into the tables.
pub struct Processor {
    pub(crate) config: ProcessorConfig,
    pub(crate) parts: Parts,
    pub(crate) metrics: Metrics,
    /// One for each worker: a partition that moves must not find what its former owner thought of it.
    hot: Vec<HotRuns>,
    status: watch::Sender<Status>,
}

impl Processor {
    /// A processor of these parts.
    pub fn new(config: ProcessorConfig, parts: Parts, metrics: Metrics) -> Self {
        let hot = (0..config.workers.max(1))
            .map(|_| HotRuns::new(&config))
            .collect();
        Self {
            config,
            parts,
            metrics,
            hot,
            status: watch::Sender::new(Status::Starting),
        }
    }

    /// Follows what the processor is doing.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    /// The runs that its workers keep in memory.
    pub fn hot_runs(&self) -> HotView {
        let parts = (self.parts.gate.clone(), self.metrics.clone());
        HotView::new(self.hot.clone(), self.config.hot_bytes, parts)
    }

    /// Processes until `stop` becomes true or its sender is gone, then finishes the micro-batch in hand, commits and
    /// returns. An error means that something needs a person; everything not committed stays in the log.
    pub async fn run(self, stop: watch::Receiver<bool>) -> Result<(), ProcessorError> {
        let this = Arc::new(self);
        let outcome = this.clone().run_workers(stop).await;
        this.status.send_replace(Status::Stopped);
        outcome
    }

    async fn run_workers(
        self: Arc<Self>,
        mut stop: watch::Receiver<bool>,
    ) -> Result<(), ProcessorError> {
        let tables = Patient {
            processor: self.clone(),
            stop: stop.clone(),
        };
        // Nobody waits for this process before it has heard the others for a while: so it takes no partitions earlier.
        let mut stopped = stop.clone();
        let first_pass = async {
            tokio::select! {
                _ = self.parts.gate.pass() => Ok(true),
                () = stopped_by(&mut stopped) => Ok(false),
            }
        };
        let known = match tokio::try_join!(Known::load(&tables), first_pass) {
            Err(error) if error.is_retryable() && *stop.borrow() => return Ok(()),
            Ok((_, false)) => return Ok(()),
            loaded => loaded?.0,
        };
        let known = Arc::new(known);
        self.status.send_replace(Status::Running);
        if self.parts.gate.is_shared() {
            // Before there is a log to read, nobody knows how many partitions it has.
            let stands = tables.placed_by().await;
            match stands {
                Err(error) if error.is_retryable() && *stop.borrow() => return Ok(()),
                stands => self.parts.gate.place_by(stands?.unwrap_or(0)),
            }
        }
        let mut workers = JoinSet::new();
        // Each worker gets its own word to stop, so that one that fails ends the others.
        let (stop_all, stopped) = watch::channel(false);
        for hot in &self.hot {
            let worker = Worker::new((self.clone(), known.clone(), hot.clone()), stopped.clone());
            workers.spawn(worker.run());
        }
        let mut lag_interval = tokio::time::interval(LAG_INTERVAL);
        let mut outcome = Ok(());
        let mut ages = LagAges::default();
        let learning = self.learn_on(&known);
        let following = self.follow_partitions();
        tokio::pin!(learning, following);
        loop {
            tokio::select! {
                () = stopped_by(&mut stop), if !*stop_all.borrow() => {
                    stop_all.send_replace(true);
                }
                ended = workers.join_next() => match ended {
                    None => return outcome,
                    Some(Ok(Ok(()))) => {}
                    Some(Ok(Err(error))) => {
                        tracing::error!(error = %error, "a processor worker stopped; its partitions wait");
                        stop_all.send_replace(true);
                        outcome = Err(error);
                    }
                    Some(Err(_)) => {
                        stop_all.send_replace(true);
                        outcome = Err(ProcessorError::WorkerPanicked);
                    }
                },
                _ = lag_interval.tick() => self.observe(&mut ages).await,
                () = &mut learning, if self.parts.gate.is_shared() => {}
                () = &mut following, if self.parts.gate.is_shared() => {}
            }
        }
    }

    /// Learns which runs other processes write, as long as it is polled, so that little is left to learn when their
    /// partitions come here.
    async fn learn_on(&self, known: &Known) {
        loop {
            tokio::time::sleep(LEARN_INTERVAL).await;
            if let Err(error) = known.catch_up(self.parts.tables.as_ref()).await {
                tracing::warn!(error = %error, "which runs others wrote cannot be learned for now");
            }
        }
    }

    async fn observe(&self, ages: &mut LagAges) {
        self.set_deaf(self.parts.gate.is_deaf());
        if let Ok(lags) = self.parts.log.lag(GROUP).await {
            let records: u64 = lags
                .iter()
                .map(|lag| lag.end.saturating_sub(lag.committed))
                .sum();
            let age = ages.look(&lags, Instant::now());
            self.metrics
                .lag_age_seconds
                .set(i64::try_from(age.as_secs()).unwrap_or(i64::MAX));
            self.metrics
                .lag_records
                .set(i64::try_from(records).unwrap_or(i64::MAX));
        }
        self.metrics.hot_bytes.set(
            i64::try_from(self.hot.iter().map(HotRuns::bytes).sum::<u64>()).unwrap_or(i64::MAX),
        );
    }

    /// The other processors cannot be heard, or can again.
    fn set_deaf(&self, is_deaf: bool) {
        self.status.send_if_modified(|current| {
            let status = match (is_deaf, &*current) {
                (true, Status::Running) => Status::Deaf,
                (false, Status::Deaf) => Status::Running,
                _ => return false,
            };
            *current = status;
            true
        });
    }

    /// A worker waits for the store, or goes on.
    pub(crate) fn set_waiting(&self, waiting: bool) {
        let status = if waiting {
            Status::Waiting
        } else {
            Status::Running
        };
        self.status.send_if_modified(|current| {
            let changes = *current != status && *current != Status::Stopped;
            if changes {
                *current = status;
            }
            changes
        });
    }
}

/// Returns when the word to stop is given, or nobody is left to give it.
pub(crate) async fn stopped_by(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stopped| *stopped).await;
}
