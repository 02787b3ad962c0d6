//! Settings of a client: URL, credential, and every bound.

use std::time::Duration;

/// Settings of a [`crate::Client`]. The defaults suit a program with a few thousand events a second.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// URL of the server, without the path. Defaults to `http://127.0.0.1:7070`.
    pub url: String,
    /// The API key. Without one the server accepts only apps that are listed for reports without a key.
    pub api_key: Option<String>,
    /// The app of events that name none; defaults to the app of the key's project.
    pub app_id: Option<String>,
    /// Interval between two batches; defaults to half a second. A full batch is sent at once.
    pub flush_interval: Duration,
    /// Maximum number of queued events; defaults to 10,000. Events beyond it are dropped.
    pub queue_events: usize,
    /// Maximum bytes of queued JSON; defaults to 16 MiB.
    pub queue_bytes: usize,
    /// Maximum number of events in a batch; defaults to 500.
    pub batch_events: usize,
    /// Maximum bytes of JSON in a batch; defaults to 1 MiB. A larger event is dropped.
    pub batch_bytes: usize,
    /// Timeout of one request; defaults to 5 s.
    pub request_timeout: Duration,
    /// Number of retries after a failed connection, a timeout, 408, 429 or 5xx. Defaults to 0: the batch is dropped and
    /// counted.
    pub retries: u32,
    /// Wait before the first retry; defaults to half a second and doubles each time, up to 30 s. A longer `Retry-After`
    /// of the server takes precedence, up to a minute.
    pub retry_wait: Duration,
    /// Time that [`crate::Client::close`] has for the last batches; defaults to 5 s.
    pub close_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            url: "http://127.0.0.1:7070".to_owned(),
            api_key: None,
            app_id: None,
            flush_interval: Duration::from_millis(500),
            queue_events: 10_000,
            queue_bytes: 16 << 20,
            batch_events: 500,
            batch_bytes: 1 << 20,
            request_timeout: Duration::from_secs(5),
            retries: 0,
            retry_wait: Duration::from_millis(500),
            close_timeout: Duration::from_secs(5),
        }
    }
}

impl Settings {
    /// The defaults, with `SPINDLE_URL`, `SPINDLE_API_KEY` and `SPINDLE_APP_ID` where they are set and not empty.
    pub fn from_env() -> Self {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let default = Self::default();
        Self {
            url: variable("SPINDLE_URL").unwrap_or(default.url),
            api_key: variable("SPINDLE_API_KEY"),
            app_id: variable("SPINDLE_APP_ID"),
            ..default
        }
    }
}

impl std::fmt::Debug for Settings {
    /// Without the key, and without the URL, which may contain one.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("has_api_key", &self.api_key.is_some())
            .field("app_id", &self.app_id)
            .field("flush_interval", &self.flush_interval)
            .field("queue_events", &self.queue_events)
            .field("queue_bytes", &self.queue_bytes)
            .field("batch_events", &self.batch_events)
            .field("batch_bytes", &self.batch_bytes)
            .field("request_timeout", &self.request_timeout)
            .field("retries", &self.retries)
            .field("retry_wait", &self.retry_wait)
            .field("close_timeout", &self.close_timeout)
            .finish()
    }
}
