//! The one reader of `Authorization`.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Longest secret of any kind: a JWT of an identity provider takes some kilobytes, and proxies forward no longer
/// header (X1).
pub const SECRET_BYTES: usize = 8 << 10;
/// Longest secret that this server issued. They take about 70 bytes; the bound keeps hashing and caches small (X1).
pub const OWN_SECRET_BYTES: usize = 512;

/// What `Authorization` of a request holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthHeader {
    scheme: Scheme,
    secrets: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Bearer,
    Basic,
    /// A secret without a scheme, as some clients send it.
    Bare,
    Unknown,
}

impl AuthHeader {
    /// Reads `Bearer <secret>`, `Basic` with the secret as user or password, or the bare secret; `None` without the
    /// header. A header that holds no secret, or one over [`SECRET_BYTES`], is read as one without secrets: it is a
    /// failed authentication and not a request without a credential.
    pub fn read(headers: &HeaderMap) -> Option<Self> {
        let value = headers.get(AUTHORIZATION)?;
        let text = value.to_str().unwrap_or_default().trim();
        let (scheme, secrets) = match text.split_once(' ') {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("bearer") => {
                (Scheme::Bearer, vec![rest.trim().to_owned()])
            }
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("basic") => {
                (Scheme::Basic, of_basic(rest.trim()))
            }
            Some(_) => (Scheme::Unknown, Vec::new()),
            None => (Scheme::Bare, vec![text.to_owned()]),
        };
        let within = |secret: &String| (1..=SECRET_BYTES).contains(&secret.len());
        Some(Self {
            scheme,
            secrets: secrets.into_iter().filter(within).collect(),
        })
    }

    /// The secrets in the order in which they are tried: two with `Basic`, where clients put the key on either side.
    pub fn secrets(&self) -> &[String] {
        &self.secrets
    }

    /// The secrets, owned.
    pub fn into_secrets(self) -> Vec<String> {
        self.secrets
    }

    /// The secret, if the scheme is `Bearer`.
    pub fn bearer(&self) -> Option<&str> {
        match self.scheme {
            Scheme::Bearer => self.secrets.first().map(String::as_str),
            _ => None,
        }
    }
}

/// The password, then the user: with an empty password the user is the secret.
fn of_basic(encoded: &str) -> Vec<String> {
    // Some clients leave the padding out.
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &base64::alphabet::STANDARD,
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
    );
    let decoded = LENIENT.decode(encoded).ok();
    let Some(pair) = decoded.and_then(|bytes| String::from_utf8(bytes).ok()) else {
        return Vec::new();
    };
    let (user, password) = pair.split_once(':').unwrap_or((&pair, ""));
    vec![password.to_owned(), user.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn read(value: &str) -> AuthHeader {
        let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
        AuthHeader::read(&HeaderMap::from_iter([(AUTHORIZATION, value)])).unwrap()
    }

    #[test]
    fn the_secret_is_read_in_every_form_that_clients_send() {
        for (value, secrets) in [
            ("Bearer sp_key_1", &["sp_key_1"][..]),
            ("bearer   sp_key_1 ", &["sp_key_1"]),
            ("sp_key_1", &["sp_key_1"]),
            // The key as user without a password, with padding and without.
            ("Basic c3Bfa2V5XzE6", &["sp_key_1"]),
            ("Basic c3Bfa2V5XzE", &["sp_key_1"]),
            // The key as password.
            ("Basic dXNlcjpzcF9rZXlfMQ==", &["sp_key_1", "user"]),
        ] {
            assert_eq!(read(value).secrets(), secrets, "{value}");
        }
    }

    #[test]
    fn a_header_without_a_secret_is_still_a_header() {
        let too_long = "k".repeat(SECRET_BYTES + 1);
        for value in ["", "Basic !!", "Digest a=b", &too_long, "Bearer k\u{e9}y"] {
            assert!(read(value).secrets().is_empty(), "{value:?}");
        }
        assert_eq!(AuthHeader::read(&HeaderMap::new()), None);
    }

    #[test]
    fn only_the_scheme_bearer_is_a_bearer() {
        assert_eq!(read("BEARER secret").bearer(), Some("secret"));
        for value in ["secret", "Basic c2VjcmV0", "Bearer ", "Token secret"] {
            assert_eq!(read(value).bearer(), None, "{value}");
        }
    }
}
