//! Identities that are made of texts, and the key by which a client may send a start again.

use axum::http::{HeaderMap, HeaderValue};
use schemas::fault::Fault;
use serde_json::json;
use uuid::Uuid;

/// What identities are made under, so that they are nobody else's.
const NAMESPACE: Uuid = Uuid::from_u128(0x5f0b_7a1e_3a51_4a62_9e37_6c1d_8a4b_20f7);
/// The header.
pub(super) const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Bytes of a key.
const KEY_BYTES: usize = 255;

/// The identity of these texts in this order: always the same, and another one for any other texts.
pub(super) fn derived(texts: &[&str]) -> Uuid {
    let mut name = Vec::new();
    for text in texts {
        // With the length in front, no two lists of texts are the same bytes.
        name.extend((text.len() as u64).to_le_bytes());
        name.extend(text.as_bytes());
    }
    Uuid::new_v5(&NAMESPACE, &name)
}

/// The key of a request, if it has one.
pub(super) fn key_of(headers: &HeaderMap) -> Result<Option<String>, Fault> {
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
            let message = format!("`Idempotency-Key` has to be one text of 1 to {KEY_BYTES} bytes");
            Err(Fault::bad_request("invalid_header", message)
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
        fn equal_texts_give_equal_identities_and_others_do_not(
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
    fn text_moved_from_one_place_to_the_next_is_another_identity() {
        assert_ne!(derived(&["ab", "c"]), derived(&["a", "bc"]));
        assert_ne!(derived(&["ab"]), derived(&["ab", ""]));
        // The form is kept for ever: what was started under a key is found again by later versions.
        assert_eq!(derived(&["a"]).get_version_num(), 5);
    }

    #[test]
    fn a_key_is_one_text_of_1_to_255_bytes() {
        let read = |keys: &[&[u8]]| {
            let mut headers = HeaderMap::new();
            for key in keys {
                headers.append(IDEMPOTENCY_KEY, HeaderValue::from_bytes(key).unwrap());
            }
            key_of(&headers).map_err(|fault| fault.status)
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
