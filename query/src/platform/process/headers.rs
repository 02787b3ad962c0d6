//! CORS and security headers of the start path, for front ends in a browser.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, HOST, ORIGIN, STRICT_TRANSPORT_SECURITY, VARY,
    X_CONTENT_TYPE_OPTIONS, X_XSS_PROTECTION,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};
use axum::middleware::Next;
use axum::response::Response;

/// Prefix of the paths with these headers.
const PATHS: &str = "/rtm/api/runtime/";
/// Origins that can be allowed (X1).
const ORIGINS_MAX: usize = 100;
const ALLOWED_HEADERS: &str = "Authorization, Content-Type, svc-platform, Idempotency-Key, Accept, Accept-Encoding, Accept-Language, Cache-Control";
const ALLOWED_METHODS: &str = "GET, PUT, POST, DELETE, PATCH";
/// A year.
const TRANSPORT_SECURITY: &str = "max-age=31536000";

/// Origins whose pages may send requests with credentials, for example `https://front.example`. The first is the answer
/// to requests without `Origin`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins(Arc<Vec<String>>);

impl Origins {
    /// # Errors
    /// The invalid origin. `*` is invalid: browsers reject it for requests with credentials, and any page could act as the
    /// signed-in user.
    pub fn new(origins: &[String]) -> Result<Self, String> {
        if origins.len() > ORIGINS_MAX {
            return Err(format!(
                "at most {ORIGINS_MAX} origins can be allowed, got {}",
                origins.len()
            ));
        }
        let read = |origin: &String| {
            is_origin(origin)
                .then(|| origin.to_ascii_lowercase())
                .ok_or_else(|| match origin.as_str() {
                    "*" => "`*` cannot be allowed together with credentials; list the origins".to_owned(),
                    _ => format!("`{origin}` is not an origin such as \"https://front.example\" or \"http://localhost:4200\", without a path"),
                })
        };
        let origins: Result<Vec<String>, String> = origins.iter().map(read).collect();
        Ok(Self(Arc::new(origins?)))
    }

    /// The value of `Access-Control-Allow-Origin`: the origin of the request if it is allowed; without one the first
    /// allowed origin, or the server's own if none is configured.
    fn answered(&self, origin: Option<&str>, host: Option<&str>) -> Option<String> {
        let own = || host.map(|host| format!("http://{host}"));
        let Some(origin) = origin else {
            return self.0.first().cloned().or_else(own);
        };
        let is_own = || {
            let rest = origin.strip_prefix("http://");
            let rest = rest.or_else(|| origin.strip_prefix("https://"));
            rest.is_some() && rest == host
        };
        let is_allowed = self
            .0
            .iter()
            .any(|allowed| allowed == &origin.to_ascii_lowercase());
        (is_allowed || is_own()).then(|| origin.to_owned())
    }
}

fn is_origin(text: &str) -> bool {
    let Ok(uri) = text.parse::<Uri>() else {
        return false;
    };
    let is_bare = uri.path() == "/" && uri.query().is_none() && !text.ends_with('/');
    let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
    let has_user = uri
        .authority()
        .is_some_and(|host| host.as_str().contains('@'));
    is_http
        && is_bare
        && !has_user
        && uri
            .host()
            .is_some_and(|host| !host.is_empty() && !host.contains('*'))
}

/// The headers of a response to a request with this `Origin` and `Host`.
fn headers(
    origins: &Origins,
    origin: Option<&str>,
    host: Option<&str>,
) -> Vec<(HeaderName, HeaderValue)> {
    let fixed = HeaderValue::from_static;
    let mut all = vec![
        (ACCESS_CONTROL_ALLOW_CREDENTIALS, fixed("true")),
        (ACCESS_CONTROL_ALLOW_HEADERS, fixed(ALLOWED_HEADERS)),
        (ACCESS_CONTROL_ALLOW_METHODS, fixed(ALLOWED_METHODS)),
        (STRICT_TRANSPORT_SECURITY, fixed(TRANSPORT_SECURITY)),
        // Compression and the allowed origin depend on the request.
        (VARY, fixed("Accept-Encoding, Origin")),
        (X_CONTENT_TYPE_OPTIONS, fixed("nosniff")),
        (X_XSS_PROTECTION, fixed("0")),
    ];
    let answered = origins.answered(origin, host);
    if let Some(Ok(value)) = answered.map(|origin| HeaderValue::from_str(&origin)) {
        all.push((ACCESS_CONTROL_ALLOW_ORIGIN, value));
    }
    all
}

/// Whether responses of this path have the headers.
pub fn apply_to(uri: &Uri) -> bool {
    uri.path().starts_with(PATHS)
}

/// Adds the headers to all responses of the start path, including errors of other layers.
pub async fn with_headers(
    State(origins): State<Origins>,
    request: Request,
    next: Next,
) -> Response {
    if !apply_to(request.uri()) {
        return next.run(request).await;
    }
    let text = |map: &HeaderMap, name: HeaderName| {
        let value = map.get(name)?.to_str().ok()?;
        Some(value.to_owned())
    };
    let origin = text(request.headers(), ORIGIN);
    let authority = request.uri().authority().map(|host| host.to_string());
    let host = text(request.headers(), HOST).or(authority);
    let mut response = next.run(request).await;
    for (name, value) in headers(&origins, origin.as_deref(), host.as_deref()) {
        response.headers_mut().insert(name, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origins(list: &[&str]) -> Result<Origins, String> {
        let list: Vec<String> = list.iter().map(|one| (*one).to_owned()).collect();
        Origins::new(&list)
    }

    #[test]
    fn origins_can_be_allowed_and_a_wildcard_cannot() {
        for good in [
            "https://front.example",
            "http://localhost:4200",
            "HTTPS://Front.Example",
            "http://[::1]:80",
        ] {
            assert!(origins(&[good]).is_ok(), "{good}");
        }
        for bad in [
            "*",
            "",
            "null",
            "front.example",
            "https://front.example/",
            "https://front.example/app",
            "https://front.example?x",
            "ftp://front.example",
            "https://*.example",
            "https://me@front.example",
            "https://",
        ] {
            assert!(origins(&[bad]).is_err(), "{bad}");
        }
        assert!(origins(&["*"]).is_err_and(|why| why.contains("credentials")));
        assert!(origins(&["https://a.example"; 101]).is_err());
    }

    #[test]
    fn the_allowed_origin_depends_on_the_request() {
        let set = origins(&["https://front.example", "http://localhost:4200"]).unwrap();
        let none = Origins::default();
        let host = Some("10.0.0.7:7070");
        for (allowed, origin, expected) in [
            (&set, None, Some("https://front.example")),
            (
                &set,
                Some("http://localhost:4200"),
                Some("http://localhost:4200"),
            ),
            (
                &set,
                Some("HTTP://LOCALHOST:4200"),
                Some("HTTP://LOCALHOST:4200"),
            ),
            (&set, Some("https://evil.example"), None),
            (&set, Some("https://front.example.evil.example"), None),
            (&set, Some("http://front.example"), None),
            (&set, Some("null"), None),
            (&set, Some(""), None),
            (
                &set,
                Some("http://10.0.0.7:7070"),
                Some("http://10.0.0.7:7070"),
            ),
            (&none, None, Some("http://10.0.0.7:7070")),
            (
                &none,
                Some("https://10.0.0.7:7070"),
                Some("https://10.0.0.7:7070"),
            ),
            (&none, Some("https://front.example"), None),
        ] {
            assert_eq!(
                allowed.answered(origin, host).as_deref(),
                expected,
                "{origin:?}"
            );
        }
        assert_eq!(none.answered(None, None), None);
    }

    #[test]
    fn every_header_occurs_once_with_its_documented_value() {
        let all = headers(&Origins::default(), None, Some("h"));
        let value = |name: &str| {
            let values: Vec<&HeaderValue> = all
                .iter()
                .filter(|(known, _)| known.as_str().eq_ignore_ascii_case(name))
                .map(|(_, value)| value)
                .collect();
            assert_eq!(values.len(), 1, "{name}");
            values[0].to_str().unwrap().to_owned()
        };
        for (name, expected) in [
            ("Access-Control-Allow-Credentials", "true"),
            (
                "Access-Control-Allow-Methods",
                "GET, PUT, POST, DELETE, PATCH",
            ),
            ("Access-Control-Allow-Origin", "http://h"),
            ("X-Content-Type-Options", "nosniff"),
            ("X-XSS-Protection", "0"),
            ("Vary", "Accept-Encoding, Origin"),
        ] {
            assert_eq!(value(name), expected);
        }
        assert!(value("Strict-Transport-Security").starts_with("max-age="));
        for header in ["Authorization", "Content-Type", "svc-platform"] {
            assert!(
                value("Access-Control-Allow-Headers")
                    .split(", ")
                    .any(|one| one == header)
            );
        }
        assert_eq!(
            headers(&Origins::default(), Some("https://evil.example"), Some("h")).len(),
            7
        );
    }
}
