//! What the engines of these tests say when they die or are restarted.

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Prints their warnings, from the first call on. Beside the output of the tests, which belongs to one test each.
pub(crate) fn show() {
    let engines = Targets::new().with_target("store::engine", LevelFilter::WARN);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    // An error says that an earlier test did it.
    let _ = tracing_subscriber::registry()
        .with(lines)
        .with(engines)
        .try_init();
}
