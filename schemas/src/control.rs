//! Messages on the control topic, which every process of a deployment receives.
//!
//! A message is JSON with its kind in `word`. A process ignores kinds that it does not know, so that newer and older
//! binaries can run side by side.

use serde::{Deserialize, Serialize};

use crate::timestamp::UnixMs;

/// A message to all processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "word", rename_all = "snake_case")]
pub enum ControlMessage {
    /// Rows that processes cache changed in the tables: reload them.
    Changed { what: Changed },
    /// Clear these caches.
    ClearCaches {
        /// Names as on the API.
        names: Vec<String>,
        /// Identifies this order in the logs and in [`Heartbeat::cleared`].
        order: String,
    },
    /// A process is alive. Published every one or two seconds, and at once when its barrier or its caches change.
    #[serde(rename = "present")]
    Heartbeat(Box<Heartbeat>),
    /// No processor begins another step until this barrier is released or expires. Repeated every second while a
    /// coordinator holds it.
    #[serde(rename = "close")]
    AcquireBarrier {
        /// Random for each acquisition.
        #[serde(rename = "gate")]
        barrier: String,
        /// The barrier expires this many milliseconds after the last repetition.
        for_ms: u64,
        /// Number of the repetition, by which the coordinator recognizes its own messages.
        #[serde(rename = "count", default)]
        sequence: u64,
    },
    /// Steps may begin again.
    #[serde(rename = "open")]
    ReleaseBarrier {
        #[serde(rename = "gate")]
        barrier: String,
        outcome: BarrierOutcome,
    },
    /// Messages of any kind may have been missed. Never published: the receiving process inserts it.
    #[serde(skip)]
    Missed,
    /// A kind of another version of the binary.
    #[serde(other)]
    Unknown,
}

/// The kind of rows that changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Changed {
    /// Keys, tokens or projects.
    Credentials,
    /// The price table.
    Prices,
    /// A job was requested or canceled.
    Jobs,
    /// Builds of applications and their processes.
    Builds,
    /// A kind of a newer binary.
    #[serde(other)]
    Unknown,
}

/// The state that a process publishes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// Random, new at each start.
    pub process: String,
    /// `serve`, `ingest`, `processor` or `query`.
    pub role: String,
    /// Version of the binary.
    pub version: String,
    /// Where the process listens, such as `http://10.0.0.7:7070`.
    pub endpoint: String,
    /// Parts that are not ready, each with the reason; empty when the process is ready.
    pub missing: Vec<(String, String)>,
    pub caches: Vec<CacheReport>,
    /// The last orders to clear caches that the process carried out; at most [`ORDERS_REMEMBERED`].
    pub cleared: Vec<String>,
    /// The process is shutting down: its caches no longer matter. A barrier waits for it as long as `processor` is set.
    #[serde(rename = "leaves")]
    pub leaving: bool,
    #[serde(default)]
    pub events: EventCounts,
    /// Number of this heartbeat, from 1, by which the process recognizes its own; 0 from an older binary.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sequence: u64,
    /// Partitions that are stalled as this process sees it; at most [`STALLED_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stalled: Vec<StalledPartition>,
    /// Marks that wait for their run in the whole deployment; `None` for a process that does not look for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_marks: Option<WaitingMarks>,
    /// Set while the process may write runs: a barrier waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<ProcessorState>,
}

fn is_zero(sequence: &u64) -> bool {
    *sequence == 0
}

/// Stalled partitions in one heartbeat (X1).
pub const STALLED_MAX: usize = 20;

/// A partition of the log of events in which records wait and nothing is committed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StalledPartition {
    pub partition: u32,
    /// The offset that does not move.
    pub committed: u64,
    /// Records that wait.
    pub lag_records: u64,
    /// How long it has not moved.
    pub seconds: u64,
    /// The member of the group that has the partition; empty when none has.
    pub owner: String,
    /// What the owner does, or in which state the group is.
    pub state: String,
}

/// Runs with marks (`saved`, `unsaved`, `feedback`) of which no event of their own arrived yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingMarks {
    pub runs: u64,
    /// The earliest of the marks, Unix milliseconds; `None` without any.
    pub oldest_ms: Option<UnixMs>,
}

/// The part of a heartbeat for barriers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessorState {
    /// The barrier at which the processor is paused, with no step in progress.
    pub barrier: Option<String>,
    /// The number of partitions that it places keys by; 0 while unknown.
    pub partitions: u32,
}

/// Events that a process counted since it started, duplicates included; `None` for tiers that it does not run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventCounts {
    /// Accepted: durable in the log, with or without a response.
    pub accepted: Option<u64>,
    /// Rejected individually.
    pub rejected: Option<u64>,
    /// Stored and committed.
    pub stored: Option<u64>,
    pub dead_lettered: Option<u64>,
}

/// Orders to clear caches that a process remembers: more than can be in progress.
pub const ORDERS_REMEMBERED: usize = 16;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheReport {
    /// Such as `credentials`.
    pub name: String,
    pub entries: u64,
    /// Estimated.
    pub used_bytes: u64,
    pub max_bytes: u64,
    /// Successful look-ups since the process started.
    pub hits: u64,
    /// Other look-ups.
    pub misses: u64,
}

/// What the coordinator changed while it held the barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BarrierOutcome {
    Nothing,
    /// The tables hold other rows of the same runs.
    Changed,
    /// The tables may hold runs that they did not hold before.
    Replaced,
    /// Keys are placed by another number of partitions from now on.
    Repartitioned {
        partitions: u32,
    },
}

/// A process without a heartbeat for this long, in milliseconds, does not count as alive: five heartbeats of the slower
/// kind are missing.
pub const ALIVE_WITHIN_MS: u64 = 10_000;

/// A process and its last heartbeat.
#[derive(Clone, Debug)]
pub struct KnownProcess {
    pub heartbeat: Heartbeat,
    /// Age of the heartbeat, milliseconds.
    pub silent_ms: u64,
}

impl KnownProcess {
    pub fn is_alive(&self) -> bool {
        !self.heartbeat.leaving && self.silent_ms <= ALIVE_WITHIN_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_another_version_is_unknown() {
        let message: ControlMessage = serde_json::from_str(r#"{"word":"sing","song":3}"#).unwrap();
        assert_eq!(message, ControlMessage::Unknown);
        let message: ControlMessage = serde_json::from_str(r#"{"word":"missed"}"#).unwrap();
        assert_eq!(message, ControlMessage::Unknown, "is never published");
        assert!(serde_json::to_string(&ControlMessage::Missed).is_err());
        let message: ControlMessage =
            serde_json::from_str(r#"{"word":"changed","what":"moods"}"#).unwrap();
        assert_eq!(
            message,
            ControlMessage::Changed {
                what: Changed::Unknown
            }
        );
    }

    #[test]
    fn messages_of_before_there_was_one_heartbeat_decode() {
        let present = r#"{"word":"present","process":"p","role":"query","version":"1","endpoint":"http://a",
            "missing":[],"caches":[],"cleared":[],"leaves":true}"#;
        let Ok(ControlMessage::Heartbeat(heartbeat)) = serde_json::from_str(present) else {
            panic!("{present}");
        };
        assert!(heartbeat.leaving);
        assert_eq!(heartbeat.events, EventCounts::default());
        assert_eq!((heartbeat.sequence, heartbeat.processor), (0, None));
        let close = r#"{"word":"close","gate":"g","for_ms":10000}"#;
        assert_eq!(
            serde_json::from_str::<ControlMessage>(close).unwrap(),
            ControlMessage::AcquireBarrier {
                barrier: "g".to_owned(),
                for_ms: 10_000,
                sequence: 0,
            }
        );
        let processor = r#"{"word":"processor","process":"p","closed":null,"partitions":4,"leaves":false,"count":7}"#;
        assert_eq!(
            serde_json::from_str::<ControlMessage>(processor).unwrap(),
            ControlMessage::Unknown
        );
    }

    #[test]
    fn messages_decode_to_what_was_published() {
        let messages = [
            ControlMessage::Changed {
                what: Changed::Prices,
            },
            ControlMessage::Heartbeat(Box::new(Heartbeat {
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
                leaving: false,
                events: EventCounts {
                    accepted: Some(5),
                    ..EventCounts::default()
                },
                sequence: 7,
                stalled: vec![StalledPartition {
                    partition: 3,
                    committed: 9,
                    lag_records: 2,
                    seconds: 61,
                    owner: "worker 0 here".to_owned(),
                    state: "waiting for records".to_owned(),
                }],
                waiting_marks: Some(WaitingMarks {
                    runs: 2,
                    oldest_ms: Some(1_795_168_800_007),
                }),
                processor: Some(ProcessorState {
                    barrier: Some("b".to_owned()),
                    partitions: 4,
                }),
            })),
            ControlMessage::AcquireBarrier {
                barrier: "b".to_owned(),
                for_ms: 10_000,
                sequence: 2,
            },
            ControlMessage::ReleaseBarrier {
                barrier: "b".to_owned(),
                outcome: BarrierOutcome::Repartitioned { partitions: 8 },
            },
        ];
        for message in messages {
            let text = serde_json::to_string(&message).unwrap();
            assert_eq!(
                serde_json::from_str::<ControlMessage>(&text).unwrap(),
                message
            );
        }
    }

    #[test]
    fn control_messages_have_the_bytes_that_other_processes_publish() {
        let golden = String::from_utf8(crate::golden::bytes("control_messages.jsonl")).unwrap();
        for line in golden.lines() {
            let message: ControlMessage = serde_json::from_str(line).unwrap();
            // The former message of processors, before there was one heartbeat: ignored.
            if line.starts_with(r#"{"word":"processor""#) {
                assert_eq!(message, ControlMessage::Unknown, "{line}");
                continue;
            }
            assert_ne!(message, ControlMessage::Unknown, "{line}");
            assert_eq!(serde_json::to_string(&message).unwrap(), line);
        }
    }

    #[test]
    fn a_process_is_alive_until_it_leaves_or_is_silent() {
        let known = |leaving, silent_ms| KnownProcess {
            heartbeat: Heartbeat {
                leaving,
                ..Heartbeat::default()
            },
            silent_ms,
        };
        assert!(known(false, 10_000).is_alive());
        assert!(!known(false, 10_001).is_alive());
        assert!(!known(true, 0).is_alive());
    }
}
