//! The embedded engine as the server holds it, and the child process it is.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use store::engine::{Engine, EngineConfig, LIBRARY_VARIABLE, Program};
use store::metrics::Metrics;

use crate::config::Config;

/// The engine while there is one; shared with what watches it.
#[derive(Clone, Default)]
pub(crate) struct EngineSlot(Arc<Mutex<Option<Engine>>>);

impl EngineSlot {
    /// Holds the engine until [`EngineSlot::shutdown`].
    pub(crate) fn hold(&self, engine: Engine) {
        self.with(|slot| *slot = Some(engine));
    }

    /// The child that runs now, if any.
    pub(crate) fn process_id(&self) -> Option<u32> {
        self.with(|slot| slot.as_ref().and_then(Engine::process_id))
    }

    /// Ends the child and returns when it is gone. Blocks.
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

/// The hidden command: becomes the engine and never comes back.
pub(crate) fn child() -> ExitCode {
    store::engine::run()
}
