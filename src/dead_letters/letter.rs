//! One letter: what its headers say, and the record it was.

use bytes::Bytes;
use eventlog::{Position, Record, StoredRecord};
use query::{Letter, LetterPlace};

/// What the headers that make a record a letter begin with.
const PREFIX: &str = "dead_";
/// The header that says what a letter is, and the only thing it says: one event of a record.
const PART: (&str, &[u8]) = ("dead_part", b"event");
/// The header of a record of events that says how many it has.
const EVENTS: &str = "events";

/// Where it lies.
pub(super) fn place(position: Position) -> LetterPlace {
    LetterPlace {
        partition: position.partition,
        offset: position.offset,
    }
}

/// What a letter says; whether it was redriven stands elsewhere.
pub(super) fn read(stored: StoredRecord) -> Letter {
    let record = &stored.record;
    let text = |name: &str| {
        let value = header(record, name)?;
        Some(String::from_utf8_lossy(value).into_owned())
    };
    let number = |name: &str| text(name)?.parse::<u64>().ok();
    Letter {
        place: place(stored.position),
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

/// How many accepted events it is about.
pub(super) fn events(record: &Record) -> u64 {
    let text = header(record, "dead_events").and_then(|value| std::str::from_utf8(value).ok());
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The record it was; one of its own for one event.
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
        assert_eq!((letter.place.offset, letter.events), (9, 0));
        assert_eq!((letter.source_partition, letter.at_ms), (None, None));
        assert_eq!(letter.project.as_deref(), Some("p"));
    }
}
