//! The identity of an event.
//!
//! Clients send a batch again after a time-out, so two deliveries of one event must be recognized. The identity is the
//! client's `event_id` (together with run and timestamp), or a 128-bit hash of the event's canonical content:
//! whitespace outside of strings, the order of an object's keys and the escaping of a string do not count. Numbers
//! count as written (`1` and `1.0` differ): clients that repeat an event repeat its spelling. The hash is XXH3-128:
//! fast, and not meant to resist a user who looks for collisions inside of their own project.
//!
//! Events of one millisecond are ordered by their identities. So where a client's times are more precise, the first ten
//! bits are the microsecond within the millisecond instead of a part of the hash: a question then comes before its
//! answer, and a start before its end.

use std::borrow::Cow;

use xxhash_rust::xxh3::{xxh3_128, xxh3_128_with_seed};

use crate::event::Event;
use crate::ids::{AppId, EventId, ProjectId};
use crate::timestamp::UnixMs;

const SEED_STRING: u64 = 1;
const SEED_SCALAR: u64 = 2;
const SEED_ARRAY: u64 = 3;
const SEED_OBJECT: u64 = 4;
const SEED_PAIR: u64 = 5;
const SEED_GIVEN: u64 = 6;
const SEED_CONTENT: u64 = 7;
/// Bits that hold a microsecond in its millisecond, 0 to 999.
const MICROSECOND_BITS: u32 = 10;

/// A hash of texts in their order, for identifiers that follow from what a client says of a thing. Stable: stored
/// identifiers are made of it.
pub fn of_texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> u128 {
    texts.into_iter().fold(0, |before, text| {
        pair(before, xxh3_128(text.as_bytes()), SEED_PAIR)
    })
}

/// Computes event identities within one project and app.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    scope: u128,
}

impl Identity {
    /// The same content in another project or app is another event.
    pub fn new(project: &ProjectId, app: &AppId) -> Self {
        let project = xxh3_128(project.as_str().as_bytes());
        let app = xxh3_128(app.as_str().as_bytes());
        Self {
            scope: pair(project, app, SEED_PAIR),
        }
    }

    /// `raw` is the event's JSON text, from [`crate::batch::read`].
    pub fn of(&self, event: &Event<'_>, raw: &str) -> EventId {
        let EventId(id) = match &event.event_id {
            Some(given) => self.given(given, &event.run_id, event.timestamp_ms),
            None => self.of_content(raw),
        };
        EventId(match event.microsecond {
            None => id,
            Some(microsecond) => {
                let hash = id & (u128::MAX >> MICROSECOND_BITS);
                hash | u128::from(microsecond) << (u128::BITS - MICROSECOND_BITS)
            }
        })
    }

    /// The identity of an event with an `event_id`: that, with the run and the timestamp. So a client that gives one id
    /// to different events loses none of them.
    fn given(&self, event_id: &str, run_id: &str, timestamp_ms: UnixMs) -> EventId {
        let about = pair(xxh3_128(run_id.as_bytes()), timestamp_ms as u128, SEED_PAIR);
        let given = pair(xxh3_128(event_id.as_bytes()), about, SEED_GIVEN);
        EventId(pair(self.scope, given, SEED_GIVEN))
    }

    /// The identity of an event by its content. `json` must be one valid JSON value of bounded depth, from
    /// [`crate::batch::read`].
    pub fn of_content(&self, json: &str) -> EventId {
        let mut walker = Walker { text: json, at: 0 };
        EventId(pair(self.scope, walker.value(), SEED_CONTENT))
    }
}

fn pair(left: u128, right: u128, seed: u64) -> u128 {
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&left.to_le_bytes());
    bytes[16..].copy_from_slice(&right.to_le_bytes());
    xxh3_128_with_seed(&bytes, seed)
}

/// Walks a valid JSON text. On an invalid text it ends with an arbitrary value; it never panics.
struct Walker<'a> {
    text: &'a str,
    at: usize,
}

impl Walker<'_> {
    fn value(&mut self) -> u128 {
        match self.peek() {
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'"') => self.string(),
            _ => self.scalar(),
        }
    }

    fn object(&mut self) -> u128 {
        self.at += 1;
        // Addition makes the order of the keys irrelevant; each pair is hashed separately before.
        let mut sum = 0u128;
        loop {
            match self.peek() {
                Some(b'"') => {
                    let key = self.string();
                    if self.peek() == Some(b':') {
                        self.at += 1;
                    }
                    sum = sum.wrapping_add(pair(key, self.value(), SEED_PAIR));
                }
                Some(b',') => self.at += 1,
                _ => break,
            }
        }
        self.at += 1;
        xxh3_128_with_seed(&sum.to_le_bytes(), SEED_OBJECT)
    }

    fn array(&mut self) -> u128 {
        self.at += 1;
        let mut sum = 0u128;
        loop {
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') | None => break,
                Some(_) => {
                    let before = self.at;
                    sum = pair(sum, self.value(), SEED_ARRAY);
                    if self.at == before {
                        break;
                    }
                }
            }
        }
        self.at += 1;
        xxh3_128_with_seed(&sum.to_le_bytes(), SEED_ARRAY)
    }

    fn string(&mut self) -> u128 {
        let bytes = self.text.as_bytes();
        let start = self.at + 1;
        let mut end = start;
        let mut escaped = false;
        loop {
            match memchr::memchr2(b'"', b'\\', bytes.get(end..).unwrap_or_default()) {
                Some(skip) if bytes[end + skip] == b'"' => {
                    end += skip;
                    break;
                }
                Some(skip) => {
                    escaped = true;
                    end += skip + 2;
                }
                None => {
                    end = bytes.len();
                    break;
                }
            }
        }
        self.at = end + 1;
        let content = self.text.get(start..end).unwrap_or_default();
        let content = if escaped {
            unescape(self.text.get(start - 1..end + 1), content)
        } else {
            Cow::Borrowed(content)
        };
        xxh3_128_with_seed(content.as_bytes(), SEED_STRING)
    }

    fn scalar(&mut self) -> u128 {
        let bytes = self.text.as_bytes();
        let start = self.at.min(bytes.len());
        let length = bytes[start..]
            .iter()
            .position(|byte| matches!(byte, b',' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t'))
            .unwrap_or(bytes.len() - start);
        self.at = start + length;
        xxh3_128_with_seed(&bytes[start..self.at], SEED_SCALAR)
    }

    /// Skips whitespace and returns the next byte.
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }
}

/// Invalid escapes (half of a surrogate pair) count as written.
fn unescape<'a>(quoted: Option<&str>, raw: &'a str) -> Cow<'a, str> {
    quoted
        .and_then(|quoted| serde_json::from_str::<String>(quoted).ok())
        .map_or(Cow::Borrowed(raw), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn identity() -> Identity {
        Identity::new(&ProjectId::new("default"), &AppId::new("app"))
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                proptest::collection::btree_map(".{0,4}", inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// The same value in another spelling: keys reversed, whitespace, every letter escaped.
    fn written_otherwise(value: &Value, out: &mut String) {
        let quote = |text: &str, out: &mut String| {
            out.push('"');
            for unit in text.encode_utf16() {
                out.push_str(&format!("\\u{unit:04x}"));
            }
            out.push('"');
        };
        match value {
            Value::Object(map) => {
                out.push_str("{ ");
                for (position, (key, inner)) in map.iter().rev().enumerate() {
                    out.push_str(if position > 0 { "\n, " } else { "" });
                    quote(key, out);
                    out.push_str("\t: ");
                    written_otherwise(inner, out);
                }
                out.push_str(" }");
            }
            Value::Array(items) => {
                out.push_str("[\r\n");
                for (position, inner) in items.iter().enumerate() {
                    out.push_str(if position > 0 { " , " } else { "" });
                    written_otherwise(inner, out);
                }
                out.push_str(" ]");
            }
            Value::String(text) => quote(text, out),
            other => out.push_str(&other.to_string()),
        }
    }

    proptest! {
        #[test]
        fn the_way_it_is_written_does_not_count(value in any_json()) {
            let mut other = String::new();
            written_otherwise(&value, &mut other);
            prop_assert_eq!(identity().of_content(&value.to_string()), identity().of_content(&other));
        }

        #[test]
        fn different_content_is_a_different_event(left in any_json(), right in any_json()) {
            prop_assume!(left != right);
            prop_assert_ne!(identity().of_content(&left.to_string()), identity().of_content(&right.to_string()));
        }

        #[test]
        fn invalid_text_ends_without_panic(text in "[\\[\\]{}\",:\\\\a1 é]{0,40}") {
            identity().of_content(&text);
        }
    }

    #[test]
    fn swapping_values_between_keys_is_a_different_event() {
        let (left, right) = (r#"{"a":1,"b":2}"#, r#"{"a":2,"b":1}"#);
        assert_ne!(identity().of_content(left), identity().of_content(right));
        assert_ne!(
            identity().of_content("[[1],2]"),
            identity().of_content("[1,[2]]")
        );
        assert_ne!(identity().of_content("\"1\""), identity().of_content("1"));
    }

    #[test]
    fn events_of_one_millisecond_come_in_the_order_of_their_microseconds() {
        let of = |time: &str, given: bool| {
            let mut event = serde_json::json!({"name": "chat", "role": "user", "content": "hi", "run_id": "r", "timestamp": time});
            if given {
                event["event_id"] = "e".into();
            }
            let text = event.to_string();
            let fields = serde_json::from_str(&text).unwrap();
            let event = crate::event::Event::from_fields(fields, 0, i64::MAX).unwrap();
            identity().of(&event, &text)
        };
        for given in [true, false] {
            let times = ["000000", "000001", "000500", "000999"];
            let ids = times.map(|part| of(&format!("2026-11-20T10:00:00.{part}+00:00"), given));
            assert!(ids.is_sorted() && ids[0] != ids[1], "{ids:?}");
        }
        // Events without a more precise time keep their identity: nothing that is stored becomes another event.
        let time = "2026-11-20T10:00:00.000Z";
        assert_eq!(
            of(time, true),
            identity().given("e", "r", 1_795_168_800_000)
        );
    }

    #[test]
    fn project_and_app_are_part_of_the_identity() {
        let ids: std::collections::BTreeSet<_> = [("p", "a"), ("p", "b"), ("q", "a")]
            .map(|(project, app)| {
                Identity::new(&ProjectId::new(project), &AppId::new(app)).given("e1", "r", 1)
            })
            .into();
        assert_eq!(ids.len(), 3, "(T1)");
        assert_ne!(
            identity().given("e1", "r", 1),
            identity().of_content("\"e1\"")
        );
    }
}
