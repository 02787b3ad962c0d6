//! Structured logs on standard error: text for terminals, JSON for machines.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    #[default]
    Text,
    Json,
}

#[derive(Clone, Debug)]
pub(crate) struct LogsConfig {
    pub(crate) format: Format,
    /// `level` or `target=level`, separated by commas.
    pub(crate) filter: String,
}

/// Fails with the reason why `filter` is invalid.
pub(crate) fn check_filter(filter: &str) -> Result<(), String> {
    EnvFilter::try_new(filter)
        .map(drop)
        .map_err(|error| error.to_string())
}

/// Starts logging. Standard output is reserved for the output of commands.
pub(crate) fn start(config: &LogsConfig) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&config.filter)?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let started = match config.format {
        Format::Text => lines.with_ansi(std::io::stderr().is_terminal()).try_init(),
        Format::Json => lines.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("cannot start logging: {error}"))
}
