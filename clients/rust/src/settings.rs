//! What a client is told: where, as whom, and every bound.

use std::time::Duration;

/// The settings of a [`crate::Client`]. Every bound has a default that fits a program with a few thousand events a second.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// Address of the server, without the path. `http://127.0.0.1:7070` unless given.
    pub url: String,
    /// The API key. Without one the server takes only apps that it lists as needing none.
    pub api_key: Option<String>,
    /// The app of events that name none; without it, the app of the key's project.
    pub app_id: Option<String>,
    /// Time between two batches, half a second unless given. A full batch is sent at once.
    pub flush_interval: Duration,
    /// Events that may wait, 10,000 unless given. What comes while so many wait is dropped.
    pub queue_events: usize,
    /// Bytes of JSON that may wait, 16 MiB unless given.
    pub queue_bytes: usize,
    /// Events of one batch at most, 500 unless given.
    pub batch_events: usize,
    /// Bytes of JSON of one batch at most, 1 MiB unless given. An event that is larger by itself is dropped.
    pub batch_bytes: usize,
    /// Time for one request, 5 s unless given.
    pub request_timeout: Duration,
    /// How often a batch is sent again after a failed connection, a time-out, 408, 429 or 5xx. 0 unless given: the
    /// batch is dropped and counted.
    pub retries: u32,
    /// Wait before the first retry, half a second unless given; it doubles each time, up to 30 s. A `Retry-After` of
    /// the server counts more, up to a minute.
    pub retry_wait: Duration,
    /// Time that [`crate::Client::close`] gives the last batches, 5 s unless given.
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
    /// Without the key, and without the address, which may hold one.
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
