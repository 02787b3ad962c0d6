//! Errors at start. Errors of a request are `ApiError`s.

#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// All faults of the settings.
    #[error("settings of ingest: {}", .0.join("; "))]
    Config(Vec<String>),
    /// A metric of the same name is already registered.
    #[error("metrics of ingest: {0}")]
    Metrics(#[from] prometheus::Error),
}
