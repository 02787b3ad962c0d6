//! Credentials in a request: `Authorization`, the session's cookie, tokens and keys of an identity provider.

use fuzz::{Seeds, fuzz};
use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, HeaderValue};

/// Longest secret that is looked up.
const SECRET_BYTES: usize = 8 << 10;
/// Longest session that is looked up.
const SESSION_BYTES: usize = 128;

fn seeds() -> Seeds {
    Seeds::of_files("credentials")
        .with("Bearer sp_key_000000000000000000000000000000000000000000000001")
        .with("Basic dXNlcjpzcF9rZXlfMQ==")
        .with("Bearer eyJhbGciOiJSUzI1NiIsImtpZCI6ImEifQ.eyJzdWIiOiJhIn0.c2ln")
        .with("a=b; spindle_session=sp_ses_1; __Host-spindle_session=sp_ses_2")
        .with_words(&[
            "Bearer ",
            "Basic ",
            "spindle_session=",
            "__Host-spindle_session=",
            "sp_ses_",
            "; ",
            ".",
        ])
}

#[test]
fn credentials() {
    fuzz!(seeds(), 4000, examine);
}

fn examine(bytes: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(bytes) else {
        return;
    };
    let headers = HeaderMap::from_iter([(AUTHORIZATION, value.clone()), (COOKIE, value)]);
    let secrets = query::fuzz::authorization(&headers).expect("the header is there");
    assert!(secrets.len() <= 2, "one request tries at most two secrets");
    for secret in &secrets {
        assert!((1..=SECRET_BYTES).contains(&secret.len()));
        query::fuzz::jwt(secret);
    }
    for is_secure in [true, false] {
        if let Some(secret) = query::fuzz::session_cookie(&headers, is_secure) {
            assert!(secret.starts_with("sp_ses_") && secret.len() <= SESSION_BYTES);
        }
    }
}

#[test]
fn key_set() {
    let seeds = Seeds::of_files("key_set")
        .with(r#"{"keys":[{"kty":"EC","crv":"P-256","kid":"a","use":"sig","alg":"ES256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"},{"kty":"oct","k":"AA"}]}"#)
        .with(r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#)
        .with_words(&["\"kty\"", "\"oct\"", "\"RSA\"", "\"n\"", "\"e\":\"AQAB\""])
        .as_json();
    fuzz!(seeds, 3000, |body: &[u8]| {
        if let Some(keys) = query::fuzz::key_set(body) {
            assert!(keys <= body.len());
        }
    });
}
