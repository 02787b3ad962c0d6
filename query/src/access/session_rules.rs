//! Lifetime of sessions, and the requests that may use one.

use std::time::Duration;

use axum::http::header::ORIGIN;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri};
use schemas::api_error::ApiError;

use super::same_site;

#[derive(Clone, Debug)]
pub struct SessionRules {
    /// Longest lifetime; a session ends with its token before that.
    pub lifetime: Duration,
    /// Public address of this server, a scheme and an authority, where `Host` does not name it.
    pub public: Option<Uri>,
}

impl Default for SessionRules {
    fn default() -> Self {
        Self {
            lifetime: Duration::from_secs(12 * 60 * 60),
            public: None,
        }
    }
}

impl SessionRules {
    /// Rejects requests from pages of other sites.
    pub(crate) fn check_site(&self, parts: &Parts) -> Result<(), ApiError> {
        same_site::check(parts, self.public.as_ref())
    }

    /// Whether the browser uses https, to this server or to a proxy before it.
    pub(crate) fn is_secure(&self, headers: &HeaderMap) -> bool {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        // Of several proxies, the browser reached the first.
        let forwarded = text("x-forwarded-proto").and_then(|schemes| schemes.split(',').next());
        let origin = text(ORIGIN.as_str()).and_then(|origin| origin.split_once("://"));
        let public = self.public.as_ref().and_then(Uri::scheme_str);
        // The request takes precedence: a server with a public https address can also be reached over http.
        let scheme = forwarded.or(origin.map(|(scheme, _)| scheme)).or(public);
        scheme.map(str::trim) == Some("https")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_of_the_request_takes_precedence_over_the_settings() {
        let rules = |public: Option<&'static str>| SessionRules {
            public: public.map(Uri::from_static),
            ..SessionRules::default()
        };
        let public = Some("https://spindle.example.org");
        for (public, header, value, expected) in [
            (None, "host", "a", false),
            (public, "host", "a", true),
            (public, "x-forwarded-proto", "http", false),
            (public, "origin", "http://10.0.0.7:7070", false),
            (None, "x-forwarded-proto", "https, http", true),
            (None, "origin", "https://a", true),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header, value.parse().unwrap());
            assert_eq!(
                rules(public).is_secure(&headers),
                expected,
                "{header}: {value}"
            );
        }
    }
}
