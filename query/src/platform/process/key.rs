//! Derived identifiers, and the header `Idempotency-Key`.

use axum::http::{HeaderMap, HeaderValue};
use schemas::api_error::{ApiError, ErrorCode};
use serde_json::json;
use uuid::Uuid;

/// Namespace of the derived UUIDs.
const NAMESPACE: Uuid = Uuid::from_u128(0x5f0b_7a1e_3a51_4a62_9e37_6c1d_8a4b_20f7);
pub(super) const IDEMPOTENCY_KEY: &str = "idempotency-key";
const KEY_BYTES: usize = 255;

/// The UUID of this list of texts. It is stable across versions, and differs for other lists.
pub(super) fn derived(texts: &[&str]) -> Uuid {
    let mut name = Vec::new();
    for text in texts {
        // With the lengths, no two lists have the same bytes.
        name.extend((text.len() as u64).to_le_bytes());
        name.extend(text.as_bytes());
    }
    Uuid::new_v5(&NAMESPACE, &name)
}

/// The idempotency key of a request, if it has one.
pub(super) fn key_of(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let mut keys = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(key) = keys.next() else {
        return Ok(None);
    };
    let readable = |key: &HeaderValue| {
        let key = std::str::from_utf8(key.as_bytes()).ok()?.trim();
        (1..=KEY_BYTES).contains(&key.len()).then(|| key.to_owned())
    };
    match (readable(key), keys.next()) {
        (Some(key), None) => Ok(Some(key)),
        _ => {
            let message =
                format!("`Idempotency-Key` must be sent once, with 1 to {KEY_BYTES} bytes");
            Err(ApiError::new(ErrorCode::InvalidHeader, message)
                .with_details(json!({"header": "Idempotency-Key"})))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn only_equal_texts_have_equal_uuids(
            texts in prop::collection::vec(".{0,8}", 0..5),
            others in prop::collection::vec(".{0,8}", 0..5),
        ) {
            let refs = |texts: &[String]| -> Uuid {
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                derived(&texts)
            };
            prop_assert_eq!(refs(&texts), refs(&texts));
            prop_assert_eq!(refs(&texts) == refs(&others), texts == others);
        }
    }

    #[test]
    fn moving_text_between_items_changes_the_uuid() {
        assert_ne!(derived(&["ab", "c"]), derived(&["a", "bc"]));
        assert_ne!(derived(&["ab"]), derived(&["ab", ""]));
        // Later versions find starts by the same UUID.
        assert_eq!(derived(&["a"]).get_version_num(), 5);
    }

    #[test]
    fn a_key_has_1_to_255_bytes() {
        let read = |keys: &[&[u8]]| {
            let mut headers = HeaderMap::new();
            for key in keys {
                headers.append(IDEMPOTENCY_KEY, HeaderValue::from_bytes(key).unwrap());
            }
            key_of(&headers).map_err(|error| error.status)
        };
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[b" k 1 "]), Ok(Some("k 1".to_owned())));
        assert_eq!(read(&["ä".as_bytes()]), Ok(Some("ä".to_owned())));
        assert_eq!(read(&[&[b'k'; 255]]), Ok(Some("k".repeat(255))));
        for bad in [
            &[&b""[..]][..],
            &[b"  "],
            &[&[b'k'; 256]],
            &[b"\xff"],
            &[b"a", b"a"],
        ] {
            assert_eq!(read(bad), Err(400), "{bad:?}");
        }
    }
}
