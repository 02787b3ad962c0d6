//! What cannot be processed, as it is kept for a person to look at.
//!
//! A letter has the key and the headers of its record and says beside them, in headers that begin with `dead_`, why it
//! is one and where it lay. Its payload is that of the record, or one event of it. Whoever sends it through the log
//! again takes these headers off.

use bytes::Bytes;
use eventlog::{Record, StoredRecord};

use crate::decode::Poison;

/// What all headers of a letter begin with that its record did not have.
const PREFIX: &str = "dead_";

/// The letter for something bad in a record of this topic.
pub(crate) fn of(source: &StoredRecord, bad: &Poison, topic: &str, now_ms: i64) -> Record {
    let kept = source.record.headers.iter();
    // A letter that was sent again and is bad again says only what is wrong with it now.
    let kept = kept.filter(|(name, _)| !name.starts_with(PREFIX)).cloned();
    let mut headers: Vec<(String, Bytes)> = kept.collect();
    let mut say = |name: &str, value: String| {
        headers.push((format!("{PREFIX}{name}"), value.into()));
    };
    say("reason", bad.reason.clone());
    say("topic", topic.to_owned());
    say("partition", source.position.partition.to_string());
    say("offset", source.position.offset.to_string());
    say("at_ms", now_ms.to_string());
    say("events", bad.events.to_string());
    if bad.part.is_some() {
        say("part", "event".to_owned());
    }
    Record {
        key: source.record.key.clone(),
        headers,
        payload: match &bad.part {
            Some(part) => part.clone().into(),
            None => source.record.payload.clone(),
        },
    }
}
