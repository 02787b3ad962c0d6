//! What this tier asks of whoever keeps the dead letters: it reads no log itself.

use std::fmt;
use std::str::FromStr;

use async_trait::async_trait;
use schemas::fault::Fault;

/// Letters in one page at most.
pub const LETTERS_LISTED_MAX: usize = 1000;
/// Letters that one request may name.
pub const LETTERS_NAMED_MAX: usize = 1000;

/// Where a letter lies. Written `partition-offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LetterPlace {
    /// Partition of the log of dead letters.
    pub partition: u32,
    /// Offset in it.
    pub offset: u64,
}

impl fmt::Display for LetterPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.partition, self.offset)
    }
}

impl FromStr for LetterPlace {
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

/// Something that could not be processed. What its record did not say is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// Where it lies.
    pub place: LetterPlace,
    /// What is wrong with it.
    pub reason: String,
    /// The project it was reported for.
    pub project: Option<String>,
    /// The app it was reported for.
    pub app: Option<String>,
    /// When it became a letter, Unix milliseconds.
    pub at_ms: Option<i64>,
    /// The topic it was read from.
    pub topic: Option<String>,
    /// The partition it was read from.
    pub source_partition: Option<u32>,
    /// The offset it was read from.
    pub source_offset: Option<u64>,
    /// Accepted events in it.
    pub events: u64,
    /// Whether it is one event of a record, and not the record.
    pub is_event: bool,
    /// Whether it was put into the log of events again.
    pub is_redriven: bool,
    /// What was accepted, byte for byte.
    pub payload: Vec<u8>,
}

/// Some letters, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LetterPage {
    /// The letters.
    pub letters: Vec<Letter>,
    /// Where the next page begins, if there is one.
    pub next: Option<LetterPlace>,
}

/// Which letters to put into the log of events again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redrive {
    /// Those that were not yet.
    All,
    /// These, even if they were before; at most [`LETTERS_NAMED_MAX`].
    These(Vec<LetterPlace>),
}

/// What one request put into the log of events again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redriven {
    /// Letters.
    pub letters: u64,
    /// Accepted events in them.
    pub events: u64,
    /// Named letters that are not there (any more), and letters that the log can never take.
    pub left: Vec<LetterPlace>,
    /// Whether there are more than one request does: ask again.
    pub is_more: bool,
}

/// Keeps the dead letters of a deployment.
#[async_trait]
pub trait DeadLetters: Send + Sync {
    /// Letters from a place on, or from the oldest one: at most `limit`, and fewer when they are large.
    ///
    /// # Errors
    /// 503 when the log is away.
    async fn list(&self, from: Option<LetterPlace>, limit: usize) -> Result<LetterPage, Fault>;

    /// Puts letters into the log of events again, durably, and remembers that. Safe to repeat: the identities of
    /// events make a second time harmless.
    ///
    /// # Errors
    /// 503 when a log is full or away, or the database is; what was done until then is done.
    async fn redrive(&self, which: Redrive) -> Result<Redriven, Fault>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_is_written_and_nothing_else_is() {
        let place = LetterPlace {
            partition: 3,
            offset: u64::MAX,
        };
        assert_eq!(place.to_string().parse(), Ok(place));
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
            assert_eq!(bad.parse::<LetterPlace>(), Err(()), "{bad}");
        }
    }
}
