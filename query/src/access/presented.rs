//! The secret in a request, in every form that clients send.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Longest secret that is looked at: tokens of identity providers have some kilobytes, and more does not fit into the
/// headers that proxies pass on (X1).
pub(super) const SECRET_BYTES: usize = 8 << 10;

/// Reads `Authorization`: `Bearer <secret>`, `Basic` with the secret as user or password, or the bare secret.
/// `None` without the header.
pub(crate) fn presented(headers: &HeaderMap) -> Option<Vec<String>> {
    let text = headers
        .get(AUTHORIZATION)?
        .to_str()
        .unwrap_or_default()
        .trim();
    let secrets = match text.split_once(' ') {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("bearer") => {
            vec![rest.trim().to_owned()]
        }
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("basic") => basic(rest.trim()),
        Some(_) => Vec::new(),
        None => vec![text.to_owned()],
    };
    Some(
        secrets
            .into_iter()
            .filter(|secret| (1..=SECRET_BYTES).contains(&secret.len()))
            .collect(),
    )
}

/// The password, then the user. Padding may be missing.
fn basic(encoded: &str) -> Vec<String> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &base64::alphabet::STANDARD,
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
    );
    let Some(pair) = LENIENT
        .decode(encoded)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
    else {
        return Vec::new();
    };
    let (user, password) = pair.split_once(':').unwrap_or((&pair, ""));
    vec![password.to_owned(), user.to_owned()]
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn the_secret_is_found_in_every_form_clients_send() {
        let read = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            presented(&headers)
        };
        assert_eq!(read("Bearer sp_key_1"), Some(vec!["sp_key_1".to_owned()]));
        assert_eq!(read("sp_key_1"), Some(vec!["sp_key_1".to_owned()]));
        assert_eq!(
            read("Basic c3Bfa2V5XzE6"),
            Some(vec!["sp_key_1".to_owned()])
        );
        assert_eq!(read("Digest x"), Some(vec![]));
        assert_eq!(presented(&HeaderMap::new()), None);
    }
}
