//! Settings of ingest. Every bound has a reason (X1).

use std::time::Duration;

use bytesize::ByteSize;
use schemas::limits;
use serde::{Deserialize, Deserializer};

/// Settings of `POST /api/report`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IngestConfig {
    /// Decompressed bytes of one body; above it the response is 413.
    #[serde(deserialize_with = "size")]
    pub body_bytes: usize,
    /// Time for a whole body to arrive; after it the response is 408, so that slow clients hold no memory.
    #[serde(with = "humantime_serde")]
    pub body_timeout: Duration,
    /// Bytes of all bodies being read, checked or appended; above it the response is 503. A body costs up to about
    /// twice its size when its events have to be copied into records.
    #[serde(deserialize_with = "size")]
    pub in_flight_bytes: usize,
    /// Origins whose pages may report from a browser (`"https://app.example.com"`, or `"*"` for all).
    pub allowed_origins: Vec<String>,
    /// Events per second of one API key; 0 means no limit. Above it the response is 429.
    pub key_events_per_second: u32,
    /// Decompressed bytes of one body without a key, which is read before the client is authenticated.
    #[serde(deserialize_with = "size")]
    pub keyless_body_bytes: usize,
    /// Events per second of one app that is accepted without a key; 0 means no limit.
    pub keyless_events_per_second: u32,
    /// The burst, in seconds of the rate: how much a silent key may catch up at once, and the most events of one
    /// request.
    #[serde(with = "humantime_serde")]
    pub burst: Duration,
    /// Age of the oldest accepted events; older ones are rejected individually. `0s` accepts any.
    #[serde(with = "humantime_serde")]
    pub max_event_age: Duration,
    /// Days before yesterday that one project may report in a second; 0 means no limit. Above it the response is 429.
    pub old_days_per_second: u32,
    /// Whether the cost in a span counts before the price table (`"provided_first"`) or only for models that the table
    /// has no row for (`"table_first"`). The `cost` of an event of `/api/report` always counts.
    pub client_cost: ClientCost,
}

/// What becomes of the cost in a span: clients compute it by a price list of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientCost {
    /// It counts where the price table has no row for the model.
    #[default]
    TableFirst,
    /// It counts, whatever the price table has.
    ProvidedFirst,
}

impl Default for IngestConfig {
    fn default() -> Self {
        Self {
            body_bytes: limits::BODY_BYTES_DEFAULT,
            body_timeout: Duration::from_secs(30),
            in_flight_bytes: 256 << 20,
            allowed_origins: Vec::new(),
            key_events_per_second: 0,
            keyless_body_bytes: 1 << 20,
            keyless_events_per_second: 1000,
            burst: Duration::from_secs(10),
            max_event_age: Duration::from_secs(400 * 24 * 60 * 60),
            old_days_per_second: 4,
            client_cost: ClientCost::default(),
        }
    }
}

impl IngestConfig {
    /// All faults of the settings.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.body_bytes == 0 {
            faults.push("body_bytes must be more than 0".to_owned());
        }
        if self.keyless_body_bytes > self.body_bytes {
            faults.push("keyless_body_bytes must not be more than body_bytes".to_owned());
        }
        if self.in_flight_bytes < self.body_bytes {
            faults.push(
                "in_flight_bytes must not be less than body_bytes, or the largest body never fits"
                    .to_owned(),
            );
        }
        if self.body_timeout.is_zero() {
            faults.push("body_timeout must be more than 0s".to_owned());
        }
        if self.burst < Duration::from_secs(1) {
            faults.push("burst must be at least 1s".to_owned());
        }
        for origin in &self.allowed_origins {
            if origin != "*" && !is_origin(origin) {
                faults.push(format!(
                    "allowed_origins: {origin:?} is not an origin such as \"https://app.example.com\", nor \"*\""
                ));
            }
        }
        faults
    }
}

fn is_origin(text: &str) -> bool {
    let host = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    host.is_some_and(|host| {
        !host.is_empty()
            && host
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'/' | b'*' | b',' | b'?'))
    })
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let size = ByteSize::deserialize(deserializer)?;
    usize::try_from(size.as_u64()).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_have_no_fault() {
        assert_eq!(IngestConfig::default().faults(), Vec::<String>::new());
    }

    #[test]
    fn sizes_and_durations_are_read_with_their_units() {
        let config: IngestConfig =
            serde_json::from_str(r#"{"body_bytes": "2 MiB", "body_timeout": "5s"}"#).unwrap();
        assert_eq!(
            (config.body_bytes, config.body_timeout),
            (2 << 20, Duration::from_secs(5))
        );
    }

    #[test]
    fn an_unknown_setting_is_refused_by_name() {
        let error = serde_json::from_str::<IngestConfig>(r#"{"body_byte": 1}"#).unwrap_err();
        assert!(error.to_string().contains("body_byte"), "{error}");
    }

    #[test]
    fn every_fault_is_told_at_once() {
        let config = IngestConfig {
            in_flight_bytes: 1,
            burst: Duration::ZERO,
            allowed_origins: vec![
                "example.com".to_owned(),
                "https://a.example/".to_owned(),
                "*".to_owned(),
            ],
            ..IngestConfig::default()
        };
        assert_eq!(config.faults().len(), 4, "{:?}", config.faults());
    }
}
