//! Several processors of one deployment in one test process: each with its own gate, over one control topic.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use eventlog::memory::MemoryLog;
use eventlog::{Log, LogError};
use processor::{
    Control, GROUP, Gate, Metrics, Parts, Processor, ProcessorConfig, ProcessorError, Tables,
};
use schemas::control::Word;
use schemas::price::PriceTable;
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;

/// These tests wait for gates, which take their time, on machines that are busy.
const WITHIN: Duration = Duration::from_secs(180);

/// The control topic, heard by all that have a clone of it.
#[derive(Clone)]
pub(crate) struct Topic(broadcast::Sender<Word>);

impl Topic {
    pub(crate) fn new() -> Self {
        Self(broadcast::Sender::new(1000))
    }
}

#[async_trait]
impl Control for Topic {
    async fn say(&self, word: &Word) -> Result<(), LogError> {
        // Without a listener nobody has to hear it.
        let _ = self.0.send(word.clone());
        Ok(())
    }

    fn listen(&self) -> broadcast::Receiver<Word> {
        self.0.subscribe()
    }

    fn heard_until(&self) -> Instant {
        Instant::now()
    }
}

/// One process.
pub(crate) struct Process {
    pub(crate) gate: Gate,
    pub(crate) metrics: Metrics,
    stop: watch::Sender<bool>,
    stop_keeper: watch::Sender<bool>,
    keeper: JoinHandle<()>,
    processor: JoinHandle<Result<(), ProcessorError>>,
}

impl Process {
    pub(crate) fn start(
        topic: &Topic,
        log: &MemoryLog,
        tables: Arc<dyn Tables>,
        prices: watch::Receiver<Arc<PriceTable>>,
    ) -> Self {
        let (gate, keeper) = Gate::shared(Arc::new(topic.clone()));
        let metrics = Metrics::new(&prometheus::Registry::new()).unwrap();
        let config = ProcessorConfig {
            batch_wait: Duration::from_millis(5),
            retry_pause_max: Duration::from_millis(50),
            ..ProcessorConfig::default()
        };
        let parts = Parts {
            log: Arc::new(log.clone()),
            dead_letters: Arc::new(MemoryLog::new(1)),
            tables,
            prices,
            gate: gate.clone(),
        };
        let processor = Processor::new(config, parts, metrics.clone());
        let (stop, stopped) = watch::channel(false);
        let (stop_keeper, keeper_stopped) = watch::channel(false);
        Self {
            gate,
            metrics,
            stop,
            stop_keeper,
            keeper: tokio::spawn(keeper.run(keeper_stopped)),
            processor: tokio::spawn(processor.run(stopped)),
        }
    }

    pub(crate) async fn stop(self) {
        self.stop.send_replace(true);
        self.processor.await.unwrap().unwrap();
        self.stop_keeper.send_replace(true);
        self.keeper.await.unwrap();
    }

    /// Nothing of it goes on.
    pub(crate) async fn kill(self) {
        self.processor.abort();
        self.keeper.abort();
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
