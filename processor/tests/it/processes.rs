//! Several processors of one deployment in one test process: each with its own barrier, over one control topic.

use std::sync::Arc;
use std::time::Duration;

use control::{Barrier, Driver, LocalChannel, Members, PROCESSOR_HEARTBEAT_INTERVAL};
use eventlog::{Log, MemoryLog};
use processor::{Dependencies, GROUP, Metrics, Processor, ProcessorConfig, ProcessorError, Tables};
use schemas::control::Heartbeat;
use schemas::price::PriceTable;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// These tests wait for barriers, which take their time, on machines that are busy.
const WITHIN: Duration = Duration::from_secs(180);

pub(crate) type Topic = Arc<LocalChannel>;

pub(crate) struct Process {
    pub(crate) barrier: Barrier,
    pub(crate) metrics: Metrics,
    stop: watch::Sender<bool>,
    stop_driver: CancellationToken,
    driver: JoinHandle<()>,
    processor: JoinHandle<Result<(), ProcessorError>>,
}

impl Process {
    pub(crate) fn start(
        topic: &Topic,
        log: &MemoryLog,
        tables: Arc<dyn Tables>,
        prices: watch::Receiver<Arc<PriceTable>>,
    ) -> Self {
        let (barrier, driver) = Barrier::shared();
        let name = format!("process_{:032x}", rand::random::<u128>());
        let members = Members::new(name, PROCESSOR_HEARTBEAT_INTERVAL);
        let driver = Driver::new(topic.clone(), members, Heartbeat::default, Some(driver));
        let metrics = Metrics::new(&prometheus::Registry::new()).unwrap();
        let config = ProcessorConfig {
            batch_wait: Duration::from_millis(30),
            retry_pause_max: Duration::from_millis(50),
            ..ProcessorConfig::default()
        };
        let parts = Dependencies {
            log: Arc::new(log.clone()),
            dead_letters: Arc::new(MemoryLog::new(1)),
            tables,
            prices,
            barrier: barrier.clone(),
        };
        let processor = Processor::new(config, parts, metrics.clone());
        let (stop, stopped) = watch::channel(false);
        let stop_driver = CancellationToken::new();
        Self {
            barrier,
            metrics,
            stop,
            driver: tokio::spawn(driver.run(stop_driver.clone())),
            stop_driver,
            processor: tokio::spawn(processor.run(stopped)),
        }
    }

    pub(crate) async fn stop(self) {
        self.stop.send_replace(true);
        self.processor.await.unwrap().unwrap();
        self.stop_driver.cancel();
        self.driver.await.unwrap();
    }

    /// Nothing of it goes on.
    pub(crate) async fn kill(self) {
        self.processor.abort();
        self.driver.abort();
        assert!(
            self.processor
                .await
                .is_err_and(|error| error.is_cancelled())
        );
    }
}

/// Waits until everything appended is stored and committed, wherever it was moved.
pub(crate) async fn drained(log: &MemoryLog) {
    let drained = async {
        loop {
            let lags = log.lag(GROUP).await.unwrap();
            if lags.iter().all(|lag| lag.committed >= lag.end) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(WITHIN, drained).await.expect("drains");
}
