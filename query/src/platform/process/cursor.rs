//! Where a page of the instance list ended: opaque to the caller, and bound to the filter it was an answer to.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use schemas::fault::Fault;
use schemas::timestamp::UnixMs;
use serde_json::json;
use uuid::Uuid;

use super::key::derived;

/// The form written by this program; another one is refused.
const VERSION: &str = "instances/1";

/// The text for the caller: the last instance of the page, of the answer to this filter.
pub(crate) fn encode(last: (UnixMs, &str), filter: &[&str]) -> String {
    let (started_at, uuid) = last;
    let sum = sum(&format!("{started_at} {uuid}"), filter);
    URL_SAFE_NO_PAD.encode(format!("{started_at} {uuid} {sum}"))
}

/// Reads what [`encode`] wrote for the same filter.
///
/// # Errors
/// A 400 when it is no cursor, is damaged, or belongs to another filter.
pub(crate) fn decode(text: &str, filter: &[&str]) -> Result<(UnixMs, String), Fault> {
    let read = || {
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        let (position, found) = text.rsplit_once(' ')?;
        let (started_at, uuid) = position.split_once(' ')?;
        let is_ours = found == sum(position, filter).to_string();
        is_ours.then_some((started_at.parse().ok()?, uuid.to_owned()))
    };
    read().ok_or_else(|| {
        let message = "`cursor` is not one that an answer gave to the same filter; keep every parameter but `limit`, or start without it";
        Fault::bad_request("invalid_cursor", message).with_details(json!({"parameter": "cursor"}))
    })
}

/// Against damage, not against forgery: a cursor is no permission (T1).
fn sum(position: &str, filter: &[&str]) -> Uuid {
    let texts: Vec<&str> = [VERSION, position]
        .into_iter()
        .chain(filter.iter().copied())
        .collect();
    derived(&texts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded_for_the_same_filter_only(at: i64, uuid in "[a-f0-9-]{1,36}", filter in ".{0,9}") {
            let text = encode((at, &uuid), &[&filter, ""]);
            prop_assert_eq!(decode(&text, &[&filter, ""]), Ok((at, uuid)));
            let other = format!("{filter}x");
            prop_assert!(decode(&text, &[&other, ""]).is_err());
            prop_assert!(decode(&text[1..], &[&filter, ""]).is_err());
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,80}") {
            prop_assert!(decode(&text, &[]).is_err());
        }
    }
}
