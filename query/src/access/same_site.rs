//! Whether a request with a session cookie comes from a page of this server.
//!
//! A browser sends the cookie with requests from any page. It names the page in `Sec-Fetch-Site` where the connection
//! can be trusted, and otherwise in `Origin`, at least for requests that change something.

use axum::http::header::{HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri};
use schemas::api_error::{ApiError, ErrorCode};

const SITE: &str = "sec-fetch-site";
const FORWARDED_HOST: &str = "x-forwarded-host";

fn cross_site() -> ApiError {
    let message = "a session is for the pages of this server; send a token as `Authorization: Bearer <secret>` from anywhere else";
    ApiError::new(ErrorCode::CrossSite, message)
}

/// Rejects requests from pages of other sites. `public` is the configured address of this server.
pub(crate) fn check(parts: &Parts, public: Option<&Uri>) -> Result<(), ApiError> {
    let text = |name: &str| {
        parts
            .headers
            .get(name)
            .map(|value| value.to_str().unwrap_or("?"))
    };
    // Reads too: they cost something, and a scan sends requests to other systems.
    let is_ours = match text(SITE) {
        Some(site) => matches!(site, "same-origin" | "none"),
        None => text(ORIGIN.as_str())
            .is_none_or(|origin| is_own_origin(origin, &parts.headers, &parts.uri, public)),
    };
    if is_ours { Ok(()) } else { Err(cross_site()) }
}

/// Whether an `Origin` names this server: its `Host`, here or before a proxy, or its public address. A page cannot make
/// a browser send another `Host`, nor `X-Forwarded-Host` without a preflight. Origins leave a default port out; proxies
/// and settings may name it.
fn is_own_origin(origin: &str, headers: &HeaderMap, uri: &Uri, public: Option<&Uri>) -> bool {
    let Some((scheme, origin)) = origin.split_once("://") else {
        return false;
    };
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    // Of several proxies, the browser reached the first.
    let before = text(FORWARDED_HOST).and_then(|hosts| hosts.split(',').next());
    // HTTP/2 has it in the URI.
    let host = text(HOST.as_str()).or_else(|| uri.authority().map(|authority| authority.as_str()));
    let default_port = if scheme == "https" { ":443" } else { ":80" };
    let is_named = |host: &str| {
        let host = host.trim();
        let host = host.strip_suffix(default_port).unwrap_or(host);
        host.eq_ignore_ascii_case(origin)
    };
    if [before, host].into_iter().flatten().any(is_named) {
        return true;
    }
    public.is_some_and(|public| {
        let authority = public.authority().map(|authority| authority.as_str());
        public.scheme_str() == Some(scheme) && authority.is_some_and(is_named)
    })
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn is_accepted(method: &str, headers: &[(&str, &str)]) -> bool {
        let mut request = Request::builder().method(method).uri("/api/run");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let public = Uri::from_static("https://spindle.example.org");
        check(&parts, Some(&public)).is_ok()
    }

    #[test]
    fn only_pages_of_this_server_change_things() {
        for method in ["POST", "PUT", "DELETE", "PATCH"] {
            for (site, expected) in [
                ("same-origin", true),
                ("none", true),
                ("same-site", false),
                ("cross-site", false),
                ("something-new", false),
            ] {
                let headers = [
                    (SITE, site),
                    ("origin", "http://evil.example"),
                    ("host", "a"),
                ];
                assert_eq!(is_accepted(method, &headers), expected, "{method} {site}");
            }
        }
    }

    #[test]
    fn reads_from_another_site_are_rejected_too() {
        for (site, expected) in [
            ("cross-site", false),
            ("same-site", false),
            ("same-origin", true),
            ("none", true),
        ] {
            assert_eq!(is_accepted("GET", &[(SITE, site)]), expected, "{site}");
        }
        let foreign = [("origin", "http://evil.example"), ("host", "a")];
        assert!(!is_accepted("HEAD", &foreign));
        assert!(is_accepted("GET", &[("host", "a")]));
    }

    #[test]
    fn without_sec_fetch_site_the_origin_must_be_this_host() {
        let host = ("host", "10.0.0.7:7070");
        for (origin, expected) in [
            ("http://10.0.0.7:7070", true),
            ("https://10.0.0.7:7070", true),
            ("https://SPINDLE.example.org", true),
            ("http://spindle.example.org", false),
            ("http://10.0.0.7", false),
            ("http://10.0.0.7:7070.evil.example", false),
            ("http://evil.example", false),
            ("null", false),
            ("", false),
        ] {
            let headers = [host, ("origin", origin)];
            assert_eq!(is_accepted("POST", &headers), expected, "{origin}");
        }
        assert!(is_accepted("POST", &[host]));
        let proxied = [
            host,
            (FORWARDED_HOST, "front, other"),
            ("origin", "https://front"),
        ];
        assert!(is_accepted("POST", &proxied));
        let with_port = [("host", "front:80"), ("origin", "http://front")];
        assert!(is_accepted("POST", &with_port));
        let other_port = [("host", "front:80"), ("origin", "https://front")];
        assert!(!is_accepted("POST", &other_port));
    }
}
