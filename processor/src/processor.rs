//! The processor: its workers, state and end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use schemas::control::StalledPartition;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::config::{GROUP, ProcessorConfig};
use crate::dependencies::{Dependencies, Shared};
use crate::error::ProcessorError;
use crate::hot::{HotRuns, HotView};
use crate::known_runs::KnownRuns;
use crate::lag::LagAges;
use crate::metrics::Metrics;
use crate::partitioning;
use crate::stalls::Stalls;
use crate::status::{Status, StatusSender};
use crate::stop::stopped_by;
use crate::tables::Tables;
use crate::watchdog;
use crate::worker::Worker;
use crate::worker::activity::Activity;

const LAG_INTERVAL: Duration = Duration::from_secs(1);

/// How often a process learns which runs other processes wrote.
const LEARN_INTERVAL: Duration = Duration::from_secs(60);

/// Consumes a log of events into the tables.
pub struct Processor {
    shared: Arc<Shared>,
    /// One per worker: a reassigned partition must not meet runs that its former owner cached.
    hot: Vec<HotRuns>,
    /// One per worker.
    activities: Vec<Activity>,
    stalled: watch::Sender<Vec<StalledPartition>>,
}

impl Processor {
    pub fn new(config: ProcessorConfig, dependencies: Dependencies, metrics: Metrics) -> Self {
        let workers = config.workers.max(1);
        let hot = (0..workers).map(|_| HotRuns::new(&config)).collect();
        let activities = (0..workers).map(|_| Activity::new()).collect();
        let status = StatusSender::new();
        let shared = Shared {
            config,
            dependencies,
            metrics,
            status,
        };
        Self {
            shared: Arc::new(shared),
            hot,
            activities,
            stalled: watch::Sender::default(),
        }
    }

    pub fn status(&self) -> watch::Receiver<Status> {
        self.shared.status.subscribe()
    }

    /// Follows which partitions are stalled.
    pub fn stalled(&self) -> watch::Receiver<Vec<StalledPartition>> {
        self.stalled.subscribe()
    }

    pub fn hot_runs(&self) -> HotView {
        HotView::new(
            self.hot.clone(),
            self.shared.config.hot_bytes,
            self.shared.dependencies.barrier.clone(),
            self.shared.metrics.clone(),
        )
    }

    /// Processes until `stop` becomes true or its sender is dropped, then finishes the micro-batch in hand, commits and
    /// returns. An error means that an operator has to act; everything not committed stays in the log.
    pub async fn run(self, stop: watch::Receiver<bool>) -> Result<(), ProcessorError> {
        let this = Arc::new(self);
        let outcome = this.clone().run_workers(stop).await;
        this.shared.status.set(Status::Stopped);
        outcome
    }

    async fn run_workers(
        self: Arc<Self>,
        mut stop: watch::Receiver<bool>,
    ) -> Result<(), ProcessorError> {
        let tables = self.shared.retrying_tables(&stop);
        // No step may begin before this process has received control messages for a while, so it takes no partitions
        // earlier.
        let mut stopped = stop.clone();
        let first_permit = async {
            tokio::select! {
                _ = self.shared.dependencies.barrier.permit() => Ok(true),
                () = stopped_by(&mut stopped) => Ok(false),
            }
        };
        let known = match tokio::try_join!(KnownRuns::load(&tables), first_permit) {
            Err(error) if error.is_retryable() && *stop.borrow() => return Ok(()),
            Ok((_, false)) => return Ok(()),
            loaded => loaded?.0,
        };
        let known = Arc::new(known);
        self.shared.status.set(Status::Running);
        if self.shared.dependencies.barrier.is_shared() {
            // The number of partitions is unknown before there is a log to read.
            let stands = tables.placed_by().await;
            match stands {
                Err(error) if error.is_retryable() && *stop.borrow() => return Ok(()),
                stands => self
                    .shared
                    .dependencies
                    .barrier
                    .set_partitions(stands?.unwrap_or(0)),
            }
        }
        let mut workers = JoinSet::new();
        // Each worker has its own stop signal, so that one that fails ends the others.
        let (stop_all, stopped) = watch::channel(false);
        for (hot, activity) in self.hot.iter().zip(&self.activities) {
            let worker = Worker::new(
                self.shared.clone(),
                known.clone(),
                (hot.clone(), activity.clone()),
                stopped.clone(),
            );
            workers.spawn(worker.run());
        }
        let mut lag_interval = tokio::time::interval(LAG_INTERVAL);
        let mut outcome = Ok(());
        let mut ages = LagAges::default();
        let spread = rand::random();
        let mut stalls = Stalls::new(self.shared.config.stalled_after, spread);
        let learning = self.learn_on(&known);
        let following = partitioning::follow(&self.shared);
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
                _ = lag_interval.tick() => self.observe(&mut ages, &mut stalls).await,
                () = &mut learning, if self.shared.dependencies.barrier.is_shared() => {}
                () = &mut following, if self.shared.dependencies.barrier.is_shared() => {}
            }
        }
    }

    /// Learns which runs other processes write, as long as it is polled, so that little is left to learn when their
    /// partitions are assigned here.
    async fn learn_on(&self, known: &KnownRuns) {
        loop {
            tokio::time::sleep(LEARN_INTERVAL).await;
            if let Err(error) = known
                .catch_up(self.shared.dependencies.tables.as_ref())
                .await
            {
                tracing::warn!(error = %error, "runs that other processes wrote cannot be read for now");
            }
        }
    }

    async fn observe(&self, ages: &mut LagAges, stalls: &mut Stalls) {
        self.shared
            .status
            .set_cut_off(self.shared.dependencies.barrier.is_cut_off());
        if let Ok(lags) = self.shared.dependencies.log.lag(GROUP).await {
            let records: u64 = lags
                .iter()
                .map(|lag| lag.end.saturating_sub(lag.committed))
                .sum();
            let age = ages.look(&lags, Instant::now());
            self.shared
                .metrics
                .lag_age_seconds
                .set(i64::try_from(age.as_secs()).unwrap_or(i64::MAX));
            self.shared
                .metrics
                .lag_records
                .set(i64::try_from(records).unwrap_or(i64::MAX));
            let stalled = match self.shared.status.is_running() {
                true => watchdog::look(&self.shared, &self.activities, stalls, &lags).await,
                // Health names what the records wait for.
                false => {
                    stalls.reset();
                    Vec::new()
                }
            };
            let count = i64::try_from(stalled.len()).unwrap_or(i64::MAX);
            self.shared.metrics.stalled_partitions.set(count);
            self.stalled.send_if_modified(|before| {
                let changes = *before != stalled;
                *before = stalled;
                changes
            });
        }
        self.shared.metrics.hot_bytes.set(
            i64::try_from(self.hot.iter().map(HotRuns::bytes).sum::<u64>()).unwrap_or(i64::MAX),
        );
    }
}
