//! Records that cannot be processed, as they are kept in the dead-letter topic.
//!
//! A dead letter has the key and the headers of its record. Further headers, which begin with `dead_`, give the reason
//! and the original position. Its payload is the record's, or one event of it. Redriving removes these headers.

use bytes::Bytes;
use eventlog::{Record, StoredRecord};

/// Prefix of the headers that are added to a dead letter.
const PREFIX: &str = "dead_";

/// Something that cannot be processed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Poison {
    /// Index of its record in the micro-batch.
    pub record: usize,
    pub reason: String,
    /// The bad part of the payload; `None` for all of it.
    pub part: Option<String>,
    /// Accepted events in it.
    pub events: u64,
    pub code: Code,
}

/// Reason, as a label of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The record's header is unreadable, or its payload is no list of events.
    Record,
    /// An event breaks the rules.
    Event,
    /// The store rejects its rows.
    Refused,
}

impl Code {
    pub const ALL: [Self; 3] = [Self::Record, Self::Event, Self::Refused];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Record => "unreadable_record",
            Self::Event => "bad_event",
            Self::Refused => "refused",
        }
    }
}

pub(crate) fn of(source: &StoredRecord, bad: &Poison, topic: &str, now_ms: i64) -> Record {
    let kept = source.record.headers.iter();
    // A dead letter that was redriven and is bad again keeps only the latest reason.
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

#[cfg(test)]
mod tests {
    use eventlog::Position;

    use super::*;

    #[test]
    fn a_dead_letter_has_the_bytes_that_its_topic_holds() {
        let source = StoredRecord {
            position: Position {
                partition: 3,
                offset: 17,
            },
            record: Record {
                key: Bytes::from_static(b"acme/main"),
                headers: vec![
                    ("v".to_owned(), Bytes::from_static(b"1")),
                    // Of an earlier time among the dead letters.
                    ("dead_reason".to_owned(), Bytes::from_static(b"old")),
                ],
                payload: Bytes::from_static(b"{\"events\":[1]}"),
            },
        };
        let poison = Poison {
            record: 0,
            reason: "event 0: is no object".to_owned(),
            part: Some("1".to_owned()),
            events: 1,
            code: Code::Event,
        };
        let letter = of(&source, &poison, "spindle.events", 1_795_185_741_941);
        let headers = letter.headers.iter();
        let headers: Vec<(&str, &[u8])> = headers
            .map(|(name, value)| (name.as_str(), value.as_ref()))
            .collect();
        let text = crate::golden::record(&letter.key, &headers, &letter.payload);
        crate::golden::check("record.dead_letter.txt", &text);
    }
}
