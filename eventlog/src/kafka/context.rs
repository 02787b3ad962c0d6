//! Log lines of the client library.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::KafkaError;

/// Warnings and errors of one client per period; the rest is counted.
const LINES: u32 = 5;
const PERIOD: Duration = Duration::from_secs(10);

/// Rate limit of one client's lines.
pub(super) struct Lines {
    /// The role of the client.
    role: &'static str,
    recent: Mutex<Recent>,
}

struct Recent {
    since: Instant,
    lines: u32,
}

impl Lines {
    pub(super) fn new(role: &'static str) -> Self {
        let recent = Recent {
            since: Instant::now(),
            lines: 0,
        };
        Self {
            role,
            recent: Mutex::new(recent),
        }
    }

    /// Whether another line may be written, and how many were suppressed before it.
    fn admit(&self, now: Instant) -> Option<u32> {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let mut untold = 0;
        if now.duration_since(recent.since) >= PERIOD {
            untold = recent.lines.saturating_sub(LINES);
            *recent = Recent {
                since: now,
                lines: 0,
            };
        }
        recent.lines = recent.lines.saturating_add(1);
        (recent.lines <= LINES).then_some(untold)
    }
}

impl ClientContext for Lines {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        let client = self.role;
        match level {
            RDKafkaLogLevel::Debug => tracing::trace!(client, facility, "{message}"),
            RDKafkaLogLevel::Info | RDKafkaLogLevel::Notice => {
                tracing::debug!(client, facility, "{message}");
            }
            // Not our error: the owner of the failed call decides that.
            _ => {
                if let Some(untold) = self.admit(Instant::now()) {
                    tracing::warn!(client, facility, untold, "{message}");
                }
            }
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        if let Some(untold) = self.admit(Instant::now()) {
            tracing::warn!(client = self.role, untold, "{error}: {reason}");
        }
    }

    fn stats_raw(&self, _statistics: &[u8]) {}
}

impl ConsumerContext for Lines {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_lines_is_cut_and_counted() {
        let lines = Lines::new("test");
        let start = Instant::now();
        let admitted = |at: Duration| lines.admit(start + at);
        for _ in 0..LINES {
            assert_eq!(admitted(Duration::ZERO), Some(0));
        }
        for _ in 0..7 {
            assert_eq!(admitted(Duration::from_secs(1)), None);
        }
        assert_eq!(admitted(PERIOD * 2), Some(7));
    }
}
