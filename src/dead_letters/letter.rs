//! One dead letter: the contents of its headers, and the original record.

use bytes::Bytes;
use eventlog::{Position, Record, StoredRecord};
use query::{DeadLetterId, DeadLetterRecord};

/// Prefix of the headers that a dead letter adds to its record.
const PREFIX: &str = "dead_";
/// The header of a dead letter that is one event of a record.
const PART: (&str, &[u8]) = ("dead_part", b"event");
/// The header with the number of events of a record.
const EVENTS: &str = "events";

pub(super) fn id(position: Position) -> DeadLetterId {
    DeadLetterId {
        partition: position.partition,
        offset: position.offset,
    }
}

/// A dead letter, without whether it was redriven.
pub(super) fn read(stored: StoredRecord) -> DeadLetterRecord {
    let record = &stored.record;
    let text = |name: &str| {
        let value = header(record, name)?;
        Some(String::from_utf8_lossy(value).into_owned())
    };
    let number = |name: &str| text(name)?.parse::<u64>().ok();
    DeadLetterRecord {
        id: id(stored.position),
        reason: text("dead_reason").unwrap_or_default(),
        project: text("project"),
        app: text("app"),
        at_ms: text("dead_at_ms").and_then(|text| text.parse().ok()),
        topic: text("dead_topic"),
        source_partition: number("dead_partition").and_then(|number| number.try_into().ok()),
        source_offset: number("dead_offset"),
        events: events(record),
        is_event: is_event(record),
        is_redriven: false,
        payload: stored.record.payload.to_vec(),
    }
}

/// The number of accepted events in it.
pub(super) fn events(record: &Record) -> u64 {
    let text = header(record, "dead_events").and_then(|value| std::str::from_utf8(value).ok());
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The original record; for one event, a record with only that event.
pub(super) fn original(letter: &Record) -> Record {
    let is_event = is_event(letter);
    let kept = letter.headers.iter();
    let kept = kept.filter(|(name, _)| !name.starts_with(PREFIX));
    let headers = kept.map(|(name, value)| match is_event && name == EVENTS {
        true => (name.clone(), Bytes::from_static(b"1")),
        false => (name.clone(), value.clone()),
    });
    let payload = match is_event {
        true => [b"{\"events\":[", &letter.payload[..], b"]}"]
            .concat()
            .into(),
        false => letter.payload.clone(),
    };
    Record {
        key: letter.key.clone(),
        headers: headers.collect(),
        payload,
    }
}

fn is_event(letter: &Record) -> bool {
    header(letter, PART.0).is_some_and(|value| value == PART.1)
}

fn header<'a>(record: &'a Record, name: &str) -> Option<&'a Bytes> {
    let found = record.headers.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(dead: &[(&str, &str)], payload: &'static str) -> Record {
        let own = [("v", "1"), ("project", "p"), ("app", "a"), ("events", "7")];
        let headers = own.iter().chain(dead);
        Record {
            key: "p/a".into(),
            headers: headers
                .map(|(name, value)| ((*name).to_owned(), Bytes::from((*value).to_owned())))
                .collect(),
            payload: payload.into(),
        }
    }

    #[test]
    fn a_record_comes_back_as_it_was() {
        let dead = [
            ("dead_reason", "r"),
            ("dead_offset", "3"),
            ("dead_events", "7"),
        ];
        let original = original(&letter(&dead, "{"));
        assert_eq!(original, letter(&[], "{"));
    }

    #[test]
    fn an_event_becomes_a_record_of_one() {
        let dead = [("dead_part", "event"), ("dead_events", "1")];
        let original = original(&letter(&dead, "{\"a\":1}"));
        assert_eq!(original.payload, "{\"events\":[{\"a\":1}]}");
        assert_eq!(header(&original, "events").unwrap(), "1");
        assert!(
            !original
                .headers
                .iter()
                .any(|(name, _)| name.starts_with("dead_"))
        );
    }

    #[test]
    fn what_a_letter_does_not_say_is_none() {
        let stored = StoredRecord {
            position: Position {
                partition: 0,
                offset: 9,
            },
            record: letter(&[("dead_partition", "x")], ""),
        };
        let letter = read(stored);
        assert_eq!((letter.id.offset, letter.events), (9, 0));
        assert_eq!((letter.source_partition, letter.at_ms), (None, None));
        assert_eq!(letter.project.as_deref(), Some("p"));
    }
}
