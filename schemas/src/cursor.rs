//! Where a page of the run list ended: opaque to the caller, bound to the question it was an answer to.
//!
//! A cursor is no secret and no permission: it only says where to go on, inside what the credential reaches (T1).
//! Its check sum is against damage, not against forgery.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use xxhash_rust::xxh3::xxh3_64;

use crate::fault::Fault;
use crate::filter::{RunQuery, Sort};
use crate::timestamp::UnixMs;

/// The form written by this program. Another one is refused: a listing begun before an upgrade begins anew.
const VERSION: u8 = 1;
/// Bytes of the check sum in front.
const SUM_BYTES: usize = 4;

/// The last row of a page and the question the page was an answer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The order of the list.
    pub sort: Sort,
    /// [`RunQuery::fingerprint`] of the question.
    pub fingerprint: u64,
    /// When the first page was read: what moved later is placed where it was then.
    pub since_ms: UnixMs,
    /// The last row's value in an order by value: milliseconds, tokens, or cost times 10^18. `None` where it has none.
    pub value: Option<i128>,
    /// The last row's start.
    pub started_at_ms: UnixMs,
    /// The last row's project.
    pub project_id: String,
    /// The last row's app.
    pub app_id: String,
    /// The last row's run.
    pub run_id: String,
}

impl Cursor {
    /// The text for the caller: letters, digits, `-` and `_`.
    pub fn encode(&self) -> String {
        let mut body = vec![VERSION, self.sort.code()];
        body.extend(self.fingerprint.to_le_bytes());
        body.extend(self.since_ms.to_le_bytes());
        body.extend(self.started_at_ms.to_le_bytes());
        match self.value {
            Some(value) => {
                body.push(1);
                body.extend(value.to_le_bytes());
            }
            None => body.push(0),
        }
        for text in [&self.project_id, &self.app_id, &self.run_id] {
            // Ids have at most 256 bytes; a longer one could not have been stored.
            let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
            body.extend(length.to_le_bytes());
            body.extend(&text.as_bytes()[..usize::from(length)]);
        }
        let mut bytes = check_sum(&body).to_vec();
        bytes.extend(body);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads a cursor of `query`.
    ///
    /// # Errors
    /// A 400 when the text is no cursor, is damaged, or belongs to another filter or order.
    pub fn decode(text: &str, query: &RunQuery) -> Result<Self, Fault> {
        let cursor = URL_SAFE_NO_PAD
            .decode(text)
            .ok()
            .and_then(|bytes| parse(&bytes))
            .ok_or_else(|| {
                refused(
                    "`cursor` is not one that an answer gave, or it is damaged; start without it",
                )
            })?;
        if cursor.sort != query.sort || cursor.fingerprint != query.fingerprint() {
            return Err(refused(
                "`cursor` belongs to another filter or sort; keep every parameter but `limit` and `count`, or start without it",
            ));
        }
        Ok(cursor)
    }
}

fn refused(message: &str) -> Fault {
    Fault::bad_request("invalid_cursor", message).with_details(json!({"parameter": "cursor"}))
}

fn check_sum(body: &[u8]) -> [u8; SUM_BYTES] {
    let [a, b, c, d, ..] = xxh3_64(body).to_le_bytes();
    [a, b, c, d]
}

fn parse(bytes: &[u8]) -> Option<Cursor> {
    let (sum, body) = bytes.split_first_chunk::<SUM_BYTES>()?;
    if *sum != check_sum(body) {
        return None;
    }
    let mut rest = body;
    let [version, sort] = take(&mut rest)?;
    if version != VERSION {
        return None;
    }
    let (sort, _) = *Sort::ALL.iter().find(|(known, _)| known.code() == sort)?;
    let fingerprint = u64::from_le_bytes(take(&mut rest)?);
    let since_ms = i64::from_le_bytes(take(&mut rest)?);
    let started_at_ms = i64::from_le_bytes(take(&mut rest)?);
    let value = match take(&mut rest)? {
        [0] => None,
        [1] => Some(i128::from_le_bytes(take(&mut rest)?)),
        _ => return None,
    };
    let (project_id, app_id, run_id) = (text(&mut rest)?, text(&mut rest)?, text(&mut rest)?);
    rest.is_empty().then_some(Cursor {
        sort,
        fingerprint,
        since_ms,
        value,
        started_at_ms,
        project_id,
        app_id,
        run_id,
    })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*taken)
}

fn text(rest: &mut &[u8]) -> Option<String> {
    let length = usize::from(u16::from_le_bytes(take(rest)?));
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    String::from_utf8(taken.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn query(sort: Sort) -> RunQuery {
        RunQuery {
            sort,
            ..RunQuery::default()
        }
    }

    prop_compose! {
        fn any_cursor()(
            sort in prop::sample::select(Sort::ALL.map(|(sort, _)| sort).to_vec()),
            since_ms: i64,
            started_at_ms: i64,
            value: Option<i128>,
            project_id in "[a-z0-9-]{1,64}",
            app_id in ".{0,64}",
            run_id in ".{0,64}",
        ) -> Cursor {
            let fingerprint = query(sort).fingerprint();
            Cursor { sort, fingerprint, since_ms, value, started_at_ms, project_id, app_id, run_id }
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(cursor in any_cursor()) {
            let text = cursor.encode();
            prop_assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
            prop_assert_eq!(Cursor::decode(&text, &query(cursor.sort)), Ok(cursor));
        }

        #[test]
        fn a_cursor_that_was_damaged_anywhere_is_refused(cursor in any_cursor(), at: prop::sample::Index, other in "[a-zA-Z0-9_-]") {
            let mut text = cursor.encode();
            let at = at.index(text.len());
            prop_assume!(!text[at..].starts_with(&other));
            text.replace_range(at..=at, &other);
            prop_assert_eq!(Cursor::decode(&text, &query(cursor.sort)).map_err(|fault| fault.status), Err(400));
            text.truncate(at);
            prop_assert_eq!(Cursor::decode(&text, &query(cursor.sort)).map_err(|fault| fault.status), Err(400));
        }

        #[test]
        fn a_cursor_of_another_question_is_refused(cursor in any_cursor()) {
            let mut other = query(cursor.sort);
            other.filter.model = Some("m".to_owned());
            prop_assert_eq!(Cursor::decode(&cursor.encode(), &other).map_err(|fault| fault.status), Err(400));
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,80}") {
            prop_assert_eq!(Cursor::decode(&text, &query(Sort::default())).map_err(|fault| fault.status), Err(400));
        }
    }
}
