//! Access to the dead-letter topic.

use std::fmt;
use std::str::FromStr;

use async_trait::async_trait;
use schemas::api_error::ApiError;

use super::Required;

/// Largest page size.
pub const DEAD_LETTERS_LISTED_MAX: usize = 1000;
/// Most ids in one redrive.
pub const DEAD_LETTERS_NAMED_MAX: usize = 1000;

/// Position in the dead-letter topic, written `partition-offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeadLetterId {
    pub partition: u32,
    pub offset: u64,
}

impl fmt::Display for DeadLetterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.partition, self.offset)
    }
}

impl FromStr for DeadLetterId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (partition, offset) = text.split_once('-').ok_or(())?;
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(partition) || !is_number(offset) {
            return Err(());
        }
        Ok(Self {
            partition: partition.parse().map_err(|_| ())?,
            offset: offset.parse().map_err(|_| ())?,
        })
    }
}

/// A record or event that could not be processed. Values that are missing in its headers are `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterRecord {
    pub id: DeadLetterId,
    /// Why it could not be processed.
    pub reason: String,
    pub project: Option<String>,
    pub app: Option<String>,
    /// When it was dead-lettered, Unix milliseconds.
    pub at_ms: Option<i64>,
    /// Topic of the original record.
    pub topic: Option<String>,
    /// Partition of the original record.
    pub source_partition: Option<u32>,
    /// Offset of the original record.
    pub source_offset: Option<u64>,
    /// Number of accepted events.
    pub events: u64,
    /// Whether it is one event of a record rather than a whole record.
    pub is_event: bool,
    pub is_redriven: bool,
    /// The accepted bytes.
    pub payload: Vec<u8>,
}

/// A page of dead letters, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterPage {
    pub letters: Vec<DeadLetterRecord>,
    /// First dead letter of the next page.
    pub next: Option<DeadLetterId>,
}

/// The dead letters to redrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redrive {
    /// All that were not redriven before.
    All,
    /// These, redriven before or not; at most [`DEAD_LETTERS_NAMED_MAX`].
    Named(Vec<DeadLetterId>),
}

/// The result of one redrive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redriven {
    /// Number of redriven dead letters.
    pub letters: u64,
    /// Number of accepted events in them.
    pub events: u64,
    /// Ids that do not exist (any more), and dead letters that are too large for the log.
    pub left: Vec<DeadLetterId>,
    /// Whether dead letters are left for another request.
    pub is_more: bool,
}

/// The dead letters of a deployment.
#[async_trait]
pub trait DeadLetters: Send + Sync {
    /// Dead letters from `from` on, or from the oldest: at most `limit`, and fewer if they are large.
    ///
    /// # Errors
    /// 503 when the log is away.
    async fn list(
        &self,
        from: Option<DeadLetterId>,
        limit: usize,
    ) -> Result<DeadLetterPage, ApiError>;

    /// Appends dead letters to the event log durably, and stores that they were redriven. Safe to repeat: the
    /// identities of events make repetitions harmless.
    ///
    /// # Errors
    /// 503 when a log is full or away, or the database is away; dead letters before the error are redriven.
    async fn redrive(&self, which: Redrive) -> Result<Redriven, ApiError>;
}

impl Required for dyn DeadLetters {
    const NOT_CONNECTED: &'static str =
        "this server has no access to dead letters; send the request to a server that has";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_parsed_as_it_is_written() {
        let id = DeadLetterId {
            partition: 3,
            offset: u64::MAX,
        };
        assert_eq!(id.to_string().parse(), Ok(id));
        for bad in [
            "",
            "-",
            "1",
            "1-",
            "-1",
            "1-2-3",
            "+1-2",
            "1-+2",
            "4294967296-0",
            "a-b",
        ] {
            assert_eq!(bad.parse::<DeadLetterId>(), Err(()), "{bad}");
        }
    }
}
