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
    /// A process is there. Said every few seconds, and at once after caches were emptied.
    Present(Box<Present>),
    /// Words were missed, and each may have been of any kind. Never said: a process tells itself.
    #[serde(skip)]
    Missed,
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
    /// Builds of applications and their processes.
    Builds,
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

/// A process of the deployment, in its own words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Present {
    /// Names the process, anew at each start.
    pub process: String,
    /// `serve`, `ingest`, `processor` or `query`.
    pub role: String,
    /// Of the binary.
    pub version: String,
    /// Where it listens, such as `http://10.0.0.7:7070`.
    pub endpoint: String,
    /// Its parts that do not work, with a reason each; none when it is ready.
    pub missing: Vec<(String, String)>,
    /// What it keeps in memory.
    pub caches: Vec<CacheReport>,
    /// The orders to empty caches that it carried out last; at most [`ORDERS_REMEMBERED`].
    pub cleared: Vec<String>,
    /// It ends; do not miss it.
    pub leaves: bool,
    /// What became of events here. A process of an older binary does not say.
    #[serde(default)]
    pub events: EventCounts,
}

/// Events that a process counted since it started, repetitions included; none of what it does not do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventCounts {
    /// Accepted: durable in the log, answered or not.
    pub accepted: Option<u64>,
    /// Rejected one by one.
    pub rejected: Option<u64>,
    /// Stored and committed.
    pub stored: Option<u64>,
    /// Put into the dead letters.
    pub dead_lettered: Option<u64>,
}

/// How many orders a process remembers to have carried out: more than can be under way.
pub const ORDERS_REMEMBERED: usize = 16;

/// One cache of one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheReport {
    /// What it holds, such as `credentials`.
    pub name: String,
    /// Entries.
    pub entries: u64,
    /// Bytes they take, nearly.
    pub used_bytes: u64,
    /// Bytes they may take.
    pub max_bytes: u64,
    /// Look-ups that found something since the process started.
    pub hits: u64,
    /// Look-ups that did not.
    pub misses: u64,
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
        let word: Word = serde_json::from_str(r#"{"word":"missed"}"#).unwrap();
        assert_eq!(word, Word::Unknown, "nobody tells another so");
        assert!(serde_json::to_string(&Word::Missed).is_err());
        let what: Word = serde_json::from_str(r#"{"word":"changed","what":"moods"}"#).unwrap();
        assert_eq!(
            what,
            Word::Changed {
                what: Changed::Unknown
            }
        );
    }

    #[test]
    fn an_older_process_is_present_without_its_counts() {
        let said = r#"{"word":"present","process":"p","role":"query","version":"1","endpoint":"http://a",
            "missing":[],"caches":[],"cleared":[],"leaves":false}"#;
        let Ok(Word::Present(present)) = serde_json::from_str(said) else {
            panic!("{said}");
        };
        assert_eq!(present.events, EventCounts::default());
    }

    #[test]
    fn words_come_back_as_they_were_said() {
        let words = [
            Word::Changed {
                what: Changed::Prices,
            },
            Word::Present(Box::new(Present {
                process: "p".to_owned(),
                role: "query".to_owned(),
                version: "1".to_owned(),
                endpoint: "http://127.0.0.1:1".to_owned(),
                missing: vec![("log".to_owned(), "away".to_owned())],
                caches: vec![CacheReport {
                    name: "credentials".to_owned(),
                    entries: 1,
                    used_bytes: 300,
                    max_bytes: 3000,
                    hits: 2,
                    misses: 3,
                }],
                cleared: vec!["o".to_owned()],
                leaves: false,
                events: EventCounts {
                    accepted: Some(5),
                    ..EventCounts::default()
                },
            })),
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
