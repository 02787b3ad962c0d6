//! Whether a request that a browser signs with a cookie comes from a page of ours.
//!
//! A browser sends the cookie with whatever any page has it ask for, so the cookie alone does not say that our own page
//! asked. Browsers say which page it was: in `Sec-Fetch-Site` where the connection can be trusted, and else in `Origin`,
//! at least where something is changed.

use axum::http::header::{HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri};
use schemas::fault::Fault;

const SITE: &str = "sec-fetch-site";
const FORWARDED_HOST: &str = "x-forwarded-host";

/// What a request is that was not meant by whoever is signed in.
fn cross_site() -> Fault {
    let message = "a session is for the pages of this server; send a token as `Authorization: Bearer <secret>` from anywhere else";
    Fault::new(403, "cross_site", message)
}

/// Refuses what a page of somebody else asks for. `public` is where people reach this server, if that is set.
pub(crate) fn check(parts: &Parts, public: Option<&Uri>) -> Result<(), Fault> {
    let text = |name: &str| {
        parts
            .headers
            .get(name)
            .map(|value| value.to_str().unwrap_or("?"))
    };
    // Reading too: what is read may cost something, or have somebody else asked, as a scan does.
    let is_ours = match text(SITE) {
        Some(site) => matches!(site, "same-origin" | "none"),
        None => text(ORIGIN.as_str())
            .is_none_or(|origin| is_own_origin(origin, &parts.headers, &parts.uri, public)),
    };
    if is_ours { Ok(()) } else { Err(cross_site()) }
}

/// Whether an `Origin` names this host: the one that was asked, here or before a proxy, or where people reach it. No page
/// has a browser send another `Host`, nor `X-Forwarded-Host` without asking first. Origins leave a usual
/// port out; proxies and settings may name it.
fn is_own_origin(origin: &str, headers: &HeaderMap, uri: &Uri, public: Option<&Uri>) -> bool {
    let Some((scheme, origin)) = origin.split_once("://") else {
        return false;
    };
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    // Of several proxies, the first was asked by the browser.
    let before = text(FORWARDED_HOST).and_then(|hosts| hosts.split(',').next());
    // HTTP/2 has it in the address.
    let asked = text(HOST.as_str()).or_else(|| uri.authority().map(|authority| authority.as_str()));
    let usual_port = if scheme == "https" { ":443" } else { ":80" };
    let is_asked = |host: &str| {
        let host = host.trim();
        let host = host.strip_suffix(usual_port).unwrap_or(host);
        host.eq_ignore_ascii_case(origin)
    };
    if [before, asked].into_iter().flatten().any(is_asked) {
        return true;
    }
    public.is_some_and(|public| {
        let authority = public.authority().map(|authority| authority.as_str());
        public.scheme_str() == Some(scheme) && authority.is_some_and(is_asked)
    })
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn is_let_in(method: &str, headers: &[(&str, &str)]) -> bool {
        let mut request = Request::builder().method(method).uri("/api/run");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let public = Uri::from_static("https://spindle.example.org");
        check(&parts, Some(&public)).is_ok()
    }

    #[test]
    fn pages_of_ours_change_things_and_others_do_not() {
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
                assert_eq!(is_let_in(method, &headers), expected, "{method} {site}");
            }
        }
    }

    #[test]
    fn what_another_site_reads_is_refused_too() {
        for (site, expected) in [
            ("cross-site", false),
            ("same-site", false),
            ("same-origin", true),
            ("none", true),
        ] {
            assert_eq!(is_let_in("GET", &[(SITE, site)]), expected, "{site}");
        }
        let foreign = [("origin", "http://evil.example"), ("host", "a")];
        assert!(!is_let_in("HEAD", &foreign));
        assert!(is_let_in("GET", &[("host", "a")]));
    }

    #[test]
    fn without_a_site_the_origin_has_to_be_this_host() {
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
            assert_eq!(is_let_in("POST", &headers), expected, "{origin}");
        }
        assert!(is_let_in("POST", &[host]));
        let proxied = [
            host,
            (FORWARDED_HOST, "front, other"),
            ("origin", "https://front"),
        ];
        assert!(is_let_in("POST", &proxied));
        let with_port = [("host", "front:80"), ("origin", "http://front")];
        assert!(is_let_in("POST", &with_port));
        let other_port = [("host", "front:80"), ("origin", "https://front")];
        assert!(!is_let_in("POST", &other_port));
    }
}
