//! Cursors: positions of pages. Opaque to the client, bound to the filter of the list.
//!
//! A cursor is no secret and no permission: it is a position inside of what the credential reaches (T1). Its checksum
//! detects damage, not forgery.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::api_error::{ApiError, ErrorCode};
use crate::filter::RunQuery;
use crate::timestamp::UnixMs;

/// The version of every cursor that this program writes. Other versions are invalid: a listing that began before an
/// upgrade has to start again.
const VERSION: u8 = 2;
/// Bytes of the checksum at the beginning.
const SUM_BYTES: usize = 4;

/// A position in a list: the identity of the last row of a page, in the order of the list.
pub trait Position: Serialize + DeserializeOwned {
    /// Unique for each list: a cursor of another list is invalid.
    const LIST: u8;
}

/// The cursor of a position in a list with this filter: letters, digits, `-` and `_`.
///
/// Layout, before Base64: checksum (4 bytes), version, list, fingerprint (8 bytes, little-endian), position (postcard).
pub fn encode(position: &impl Position, fingerprint: u64) -> String {
    URL_SAFE_NO_PAD.encode(bytes_of(position, fingerprint))
}

/// Decodes a cursor of the same list and filter.
///
/// # Errors
/// 400 `invalid_cursor` when the text is no cursor, is damaged, or belongs to another list, filter or version.
pub fn decode<P: Position>(text: &str, fingerprint: u64) -> Result<P, ApiError> {
    let (found, position) = URL_SAFE_NO_PAD
        .decode(text)
        .ok()
        .and_then(|bytes| parse::<P>(&bytes))
        .ok_or_else(|| {
            invalid("cursor is not one of this list, or it is damaged; start without it")
        })?;
    if found != fingerprint {
        return Err(invalid(
            "cursor belongs to another filter or sort; keep every parameter but limit and count, or start without it",
        ));
    }
    Ok(position)
}

/// The 400 for an unusable cursor.
pub fn invalid(message: &str) -> ApiError {
    ApiError::new(ErrorCode::InvalidCursor, message).with_details(json!({"parameter": "cursor"}))
}

/// The fingerprint of a filter as a list of values; only equal lists have equal ones.
pub fn fingerprint(values: &[&str]) -> u64 {
    let mut hash = Xxh3::new();
    for value in values {
        // Prefixed by its length, so that no two lists have the same bytes.
        hash.update(&(value.len() as u64).to_le_bytes());
        hash.update(value.as_bytes());
    }
    hash.digest()
}

fn bytes_of<P: Position>(position: &P, fingerprint: u64) -> Vec<u8> {
    let mut body = vec![VERSION, P::LIST];
    body.extend(fingerprint.to_le_bytes());
    // Positions are numbers and strings: serializing them to memory cannot fail.
    body.extend(postcard::to_allocvec(position).unwrap_or_default());
    let mut bytes = checksum(&body).to_vec();
    bytes.extend(body);
    bytes
}

fn checksum(body: &[u8]) -> [u8; SUM_BYTES] {
    let [a, b, c, d, ..] = xxh3_64(body).to_le_bytes();
    [a, b, c, d]
}

fn parse<P: Position>(bytes: &[u8]) -> Option<(u64, P)> {
    let (_, body) = bytes.split_first_chunk::<SUM_BYTES>()?;
    let (head, rest) = body.split_first_chunk::<2>()?;
    let (fingerprint, rest) = rest.split_first_chunk::<8>()?;
    if *head != [VERSION, P::LIST] {
        return None;
    }
    let fingerprint = u64::from_le_bytes(*fingerprint);
    let position: P = postcard::from_bytes(rest).ok()?;
    // Each position has exactly one text: numbers could be encoded in several ways, and bytes could follow. Checks the
    // sum too.
    (bytes_of(&position, fingerprint) == bytes).then_some((fingerprint, position))
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// When the first page was read: a run that moved later is listed at its position of then.
    pub since_ms: UnixMs,
    /// The last row's value in an order by value: milliseconds, tokens, or cost times 10^18.
    pub value: Option<i128>,
    pub started_at_ms: UnixMs,
    pub project_id: String,
    pub app_id: String,
    pub run_id: String,
}

impl Position for Cursor {
    const LIST: u8 = 1;
}

impl Cursor {
    pub fn encode(&self, query: &RunQuery) -> String {
        encode(self, query.fingerprint())
    }

    /// Decodes a cursor of `query`.
    ///
    /// # Errors
    /// 400 `invalid_cursor`.
    pub fn decode(text: &str, query: &RunQuery) -> Result<Self, ApiError> {
        decode(text, query.fingerprint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Sort;
    use proptest::prelude::*;

    fn query(sort: Sort) -> RunQuery {
        RunQuery {
            sort,
            ..RunQuery::default()
        }
    }

    prop_compose! {
        fn any_cursor()(
            since_ms: i64,
            started_at_ms: i64,
            value: Option<i128>,
            project_id in "[a-z0-9-]{1,64}",
            app_id in ".{0,64}",
            run_id in ".{0,64}",
        ) -> Cursor {
            Cursor { since_ms, value, started_at_ms, project_id, app_id, run_id }
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(cursor in any_cursor()) {
            let text = cursor.encode(&query(Sort::default()));
            prop_assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
            prop_assert_eq!(Cursor::decode(&text, &query(Sort::default())), Ok(cursor));
        }

        #[test]
        fn a_cursor_that_was_damaged_anywhere_is_refused(cursor in any_cursor(), at: prop::sample::Index, other in "[a-zA-Z0-9_-]") {
            let mut text = cursor.encode(&query(Sort::default()));
            let at = at.index(text.len());
            prop_assume!(!text[at..].starts_with(&other));
            text.replace_range(at..=at, &other);
            prop_assert_eq!(Cursor::decode(&text, &query(Sort::default())).map_err(|fault| fault.status), Err(400));
            text.truncate(at);
            prop_assert_eq!(Cursor::decode(&text, &query(Sort::default())).map_err(|fault| fault.status), Err(400));
        }

        #[test]
        fn a_cursor_of_another_question_is_refused(cursor in any_cursor()) {
            let mut other = query(Sort::default());
            prop_assert_eq!(Cursor::decode(&cursor.encode(&other), &query(Sort::LatencyDesc)).map_err(|error| error.code.as_str()), Err("invalid_cursor"));
            other.filter.model = Some("m".to_owned());
            prop_assert_eq!(Cursor::decode(&cursor.encode(&query(Sort::default())), &other).map_err(|fault| fault.status), Err(400));
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,80}") {
            prop_assert_eq!(Cursor::decode(&text, &query(Sort::default())).map_err(|fault| fault.status), Err(400));
        }
    }

    /// Clients may hold these from before an upgrade.
    #[test]
    fn cursors_of_version_1_are_invalid_cursors() {
        for name in [
            "cursor.runs.1.txt",
            "cursor.runs.1.by_cost.txt",
            "cursor.instances.1.txt",
        ] {
            let text = String::from_utf8(crate::golden::bytes(name)).unwrap();
            let error = Cursor::decode(&text, &query(Sort::default())).unwrap_err();
            assert_eq!(
                (error.status, error.code.as_str()),
                (400, "invalid_cursor"),
                "{name}"
            );
        }
    }

    #[test]
    fn a_cursor_has_the_bytes_that_clients_hold() {
        let fingerprint = 0x0102_0304_0506_0708;
        for (name, value) in [
            ("cursor.runs.2.txt", None),
            ("cursor.runs.2.by_cost.txt", Some(1_552_500_000_000_000_000)),
        ] {
            let cursor = Cursor {
                since_ms: 1_795_185_741_941,
                value,
                started_at_ms: 1_795_185_741_000,
                project_id: "acme".to_owned(),
                app_id: "main".to_owned(),
                run_id: "räun-1".to_owned(),
            };
            let golden = crate::golden::check(name, encode(&cursor, fingerprint).as_bytes());
            let text = String::from_utf8(golden).unwrap();
            assert_eq!(decode(&text, fingerprint), Ok(cursor));
        }
    }

    #[test]
    fn values_of_a_filter_are_told_apart_by_their_place() {
        assert_ne!(fingerprint(&["ab", ""]), fingerprint(&["a", "b"]));
        assert_ne!(fingerprint(&["a", ""]), fingerprint(&["", "a"]));
        assert_eq!(fingerprint(&["a", "b"]), fingerprint(&["a", "b"]));
    }
}
