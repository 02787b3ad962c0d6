//! Words that every process of a deployment hears, over the control topic.
//!
//! A word is JSON with its kind in `word`. A process that does not know a kind lets it pass, so that newer and older
//! binaries can stand beside each other.

use serde::{Deserialize, Serialize};

/// A word to all processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "word", rename_all = "snake_case")]
pub enum Word {
    /// Something that processes keep in memory was changed in the tables: read it again.
    Changed {
        /// What.
        what: Changed,
    },
    /// Empty these caches.
    ClearCaches {
        /// Their names, as on the API.
        names: Vec<String>,
        /// Names this order in the logs.
        order: String,
    },
    /// A processor is there and works. Said every second.
    Processor(Processor),
    /// All processors let no further step begin, until the same gate opens or its time is over. Said again every
    /// second while it lasts.
    Close {
        /// Names the closing.
        gate: String,
        /// Unless it is said again within so many milliseconds, the gate opens by itself.
        for_ms: u64,
        /// How often it was said: whoever said it knows by this which of them it hears.
        #[serde(default)]
        count: u64,
    },
    /// The gate opens.
    Open {
        /// The one of [`Word::Close`].
        gate: String,
        /// What happened behind it.
        outcome: Outcome,
    },
    /// A kind of a newer binary.
    #[serde(other)]
    Unknown,
}

/// What was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Changed {
    /// Keys, tokens or projects.
    Credentials,
    /// The price table.
    Prices,
    /// A job was asked for or cancelled.
    Jobs,
    /// Something of a newer binary.
    #[serde(other)]
    Unknown,
}

/// A processor's sign of life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processor {
    /// Names the process, anew at each start.
    pub process: String,
    /// The gate it keeps closed, with no step under way.
    pub closed: Option<String>,
    /// The number of partitions it places records by.
    pub partitions: u32,
    /// It ends; do not wait for it.
    pub leaves: bool,
    /// How many of these the process has said: it knows by this which of them it hears.
    #[serde(default)]
    pub count: u64,
}

/// What happened behind a closed gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Nothing.
    Nothing,
    /// The tables hold other rows of the same runs.
    Changed,
    /// There may be runs that there were not.
    Replaced,
    /// Records are placed by another number of partitions from now on.
    Repartitioned {
        /// That number.
        partitions: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_a_newer_binary_is_understood_as_one() {
        let word: Word = serde_json::from_str(r#"{"word":"sing","song":3}"#).unwrap();
        assert_eq!(word, Word::Unknown);
        let what: Word = serde_json::from_str(r#"{"word":"changed","what":"moods"}"#).unwrap();
        assert_eq!(
            what,
            Word::Changed {
                what: Changed::Unknown
            }
        );
    }

    #[test]
    fn words_come_back_as_they_were_said() {
        let words = [
            Word::Changed {
                what: Changed::Prices,
            },
            Word::Processor(Processor {
                process: "p".to_owned(),
                closed: Some("g".to_owned()),
                partitions: 4,
                leaves: false,
                count: 7,
            }),
            Word::Close {
                gate: "g".to_owned(),
                for_ms: 10_000,
                count: 2,
            },
            Word::Open {
                gate: "g".to_owned(),
                outcome: Outcome::Repartitioned { partitions: 8 },
            },
        ];
        for word in words {
            let text = serde_json::to_string(&word).unwrap();
            assert_eq!(serde_json::from_str::<Word>(&text).unwrap(), word);
        }
    }
}
