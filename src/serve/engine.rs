//! The embedded engine of a server, and its child process.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
#[cfg(target_os = "linux")]
use prometheus::process_collector::ProcessCollector;
use store::engine::{Engine, EngineConfig, LIBRARY_VARIABLE, Program};
use store::metrics::Metrics;

use crate::config::Config;

/// The running engine, if any; shared with its watcher.
#[derive(Clone, Default)]
pub(crate) struct EngineSlot(Arc<Mutex<Option<Engine>>>);

impl EngineSlot {
    /// Holds the engine until [`EngineSlot::shutdown`].
    pub(crate) fn hold(&self, engine: Engine) {
        self.with(|slot| *slot = Some(engine));
    }

    /// The id of the running child, if any.
    pub(crate) fn process_id(&self) -> Option<u32> {
        self.with(|slot| slot.as_ref().and_then(Engine::process_id))
    }

    /// Ends the child and waits for it. Blocks.
    pub(crate) fn shutdown(&self) {
        if let Some(engine) = self.with(Option::take) {
            engine.shutdown();
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Option<Engine>) -> T) -> T {
        // A panic while holding the lock cannot leave an option half changed.
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Starts the engine and returns when it answers. Blocks.
pub(crate) fn start(
    config: &Config,
    data_dir: &std::path::Path,
    metrics: Metrics,
) -> anyhow::Result<Engine> {
    let program = Program {
        path: std::env::current_exe()
            .context("cannot find this program to start the engine with")?,
        arguments: vec!["engine".into()],
    };
    let mut settings = EngineConfig::new(program, data_dir.join("engine"));
    settings.library = config
        .engine
        .library
        .clone()
        .or_else(|| std::env::var_os(LIBRARY_VARIABLE).map(Into::into));
    if let Some(bytes) = config.engine.memory_bytes {
        settings.memory_bytes = bytes;
    }
    Ok(Engine::start(settings, metrics)?)
}

/// Registers the metrics of this process (`process_*`) and of the engine's child process (`spindle_engine_process_*`):
/// sizing a machine needs both. Linux only.
pub(crate) fn register_process_metrics(
    registry: &prometheus::Registry,
    engine: &EngineSlot,
) -> prometheus::Result<()> {
    #[cfg(target_os = "linux")]
    {
        registry.register(Box::new(ProcessCollector::for_self()))?;
        registry.register(Box::new(EngineCollector(engine.clone())))?;
    }
    let _ = (registry, engine);
    Ok(())
}

/// Collects the metrics of the current engine process at each scrape.
#[cfg(target_os = "linux")]
struct EngineCollector(EngineSlot);

#[cfg(target_os = "linux")]
impl prometheus::core::Collector for EngineCollector {
    /// None: the library owns the descriptions, and each scrape creates a collector.
    fn desc(&self) -> Vec<&prometheus::core::Desc> {
        Vec::new()
    }

    fn collect(&self) -> Vec<prometheus::proto::MetricFamily> {
        let pid = self.0.process_id().and_then(|pid| pid.try_into().ok());
        let Some(pid) = pid else {
            return Vec::new();
        };
        let mut families = ProcessCollector::new(pid, "spindle_engine").collect();
        // The library reports the start time of its own process.
        families.retain(|family| !family.name().ends_with("start_time_seconds"));
        families
    }
}

/// The hidden command: becomes the engine and never returns.
pub(crate) fn child() -> ExitCode {
    store::engine::run()
}
