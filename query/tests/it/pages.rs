//! The page's files as a browser gets them.

use std::borrow::Cow;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use query::page::{File, Files, PAGES, router_of};
use tower::ServiceExt;

/// A page of some files; none at all if it was not built.
struct Made(&'static [(&'static str, &'static str, &'static str)]);

impl Files for Made {
    fn file(&self, path: &str) -> Option<File> {
        let (name, kind, text) = self.0.iter().find(|(name, ..)| *name == path)?;
        let mut hash = [0; 32];
        hash[..name.len()].copy_from_slice(name.as_bytes());
        Some(File {
            bytes: Cow::Borrowed(text.as_bytes()),
            kind: (*kind).to_owned(),
            hash,
        })
    }
}

const BUILT: Made = Made(&[
    ("index.html", "text/html", "<!doctype html>"),
    ("docs.html", "text/html", "<h1>API</h1>"),
    ("favicon.svg", "image/svg+xml", "<svg/>"),
    ("assets/index-1a2b.js", "text/javascript", "go()"),
]);

async fn ask(
    router: &Router,
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
) -> (StatusCode, HeaderMap, String) {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let asked = router.clone().oneshot(request.body(Body::empty()).unwrap());
    let (parts, body) = asked.await.unwrap().into_parts();
    let bytes = to_bytes(body, 1 << 20).await.unwrap();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    (parts.status, parts.headers, text)
}

async fn get(router: &Router, path: &str) -> (StatusCode, HeaderMap, String) {
    ask(router, ("GET", path), &[]).await
}

#[tokio::test]
async fn every_address_of_the_page_is_the_page_and_no_other_is() {
    let router = router_of(Arc::new(BUILT));
    assert_eq!(get(&router, "/docs").await.2, "<h1>API</h1>");
    let within = PAGES.map(|page| format!("/{page}"));
    let deeper = PAGES.map(|page| format!("/{page}/a%2Fb/../c?status=error"));
    for path in within
        .iter()
        .chain(&deeper)
        .map(String::as_str)
        .chain(["/"])
    {
        let (status, headers, text) = get(&router, path).await;
        assert_eq!(
            (status, text.as_str()),
            (StatusCode::OK, "<!doctype html>"),
            "{path}"
        );
        assert_eq!(headers["content-type"], "text/html; charset=utf-8");
        assert_eq!(headers["cache-control"], "no-cache");
        let tag = headers["etag"].to_str().unwrap();
        for known in [
            tag.to_owned(),
            format!("\"other\", {}", &tag[2..]),
            "*".to_owned(),
        ] {
            let again = ask(&router, ("GET", path), &[("if-none-match", &known)]).await;
            assert_eq!(
                (again.0, again.2.as_str()),
                (StatusCode::NOT_MODIFIED, ""),
                "{known}"
            );
            assert_eq!(again.1["etag"], tag);
        }
        let other = ask(&router, ("GET", path), &[("if-none-match", "\"other\"")]).await;
        assert_eq!(other.0, StatusCode::OK);
        let head = ask(&router, ("HEAD", path), &[]).await;
        assert_eq!((head.0, head.2.as_str()), (StatusCode::OK, ""));
    }
    for path in ["/run", "/runs-of-others", "/index.html", "/api", "/assets"] {
        let (status, headers, _) = get(&router, path).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
        assert!(
            !headers.contains_key("content-type"),
            "left to others: {path}"
        );
    }
    assert_eq!(
        ask(&router, ("POST", "/"), &[]).await.0,
        StatusCode::METHOD_NOT_ALLOWED
    );
}

#[test]
fn an_unknown_address_is_a_page_for_browsers_only() {
    let asked = |method: &str, path: &str, accept: Option<&str>| {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(accept) = accept {
            request = request.header("accept", accept);
        }
        query::page::of_unknown_address(&request.body(Body::empty()).unwrap())
    };
    const BROWSER: &str = "text/html,application/xhtml+xml,*/*;q=0.8";
    for path in [
        "/api/runs",
        "/v1/nothing",
        "/assets/a.js",
        "/health/x",
        "/metrics/x",
    ] {
        assert!(asked("GET", path, Some(BROWSER)).is_none(), "{path}");
    }
    assert!(asked("POST", "/setings", Some(BROWSER)).is_none());
    assert!(asked("GET", "/setings", Some("application/json")).is_none());
    assert!(asked("GET", "/setings", None).is_none());
    // Tests may run before the UI is built.
    if let Some(page) = asked("GET", "/setings", Some(BROWSER)) {
        assert_eq!(page.status(), StatusCode::NOT_FOUND);
        assert_eq!(page.headers()["content-type"], "text/html; charset=utf-8");
        assert_eq!(page.headers()["cache-control"], "no-store");
        assert!(page.headers().contains_key("content-security-policy"));
    }
}

#[tokio::test]
async fn assets_are_kept_for_ever_and_those_of_an_older_page_are_missing() {
    let router = router_of(Arc::new(BUILT));
    let (status, headers, text) = get(&router, "/assets/index-1a2b.js").await;
    assert_eq!((status, text.as_str()), (StatusCode::OK, "go()"));
    assert_eq!(headers["content-type"], "text/javascript; charset=utf-8");
    assert_eq!(
        headers["cache-control"],
        "public, max-age=31536000, immutable"
    );
    let (status, headers, _) = get(&router, "/favicon.svg").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(headers["content-type"], "image/svg+xml");
    for path in [
        "/assets/index-0000.js",
        "/assets/../index.html",
        "/assets/%2e%2e/index.html",
    ] {
        let (status, headers, text) = get(&router, path).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
        assert_eq!(headers["content-type"], "application/json");
        assert_eq!(headers["cache-control"], "no-store");
        assert!(text.contains("not_found"), "{text}");
    }
}

#[tokio::test]
async fn a_page_loads_and_runs_nothing_but_its_own() {
    let router = router_of(Arc::new(BUILT));
    for path in [
        "/",
        "/runs/1",
        "/docs",
        "/assets/index-1a2b.js",
        "/assets/none.js",
    ] {
        let (_, headers, _) = get(&router, path).await;
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(!policy.contains("unsafe"), "{policy}");
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self' data:",
            "font-src 'self'",
            "connect-src 'self'",
            "manifest-src 'self'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        ] {
            assert!(
                policy.split("; ").any(|known| known == part),
                "{path}: {policy}"
            );
        }
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert_eq!(headers["referrer-policy"], "no-referrer");
        assert_eq!(headers["cross-origin-opener-policy"], "same-origin");
        assert_eq!(
            headers["permissions-policy"],
            "camera=(), microphone=(), geolocation=()"
        );
    }
}

#[tokio::test]
async fn a_program_without_a_page_says_how_to_get_one() {
    let router = router_of(Arc::new(Made(&[])));
    for path in ["/", "/runs", "/threads/1", "/docs"] {
        let (status, headers, text) = get(&router, path).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{path}");
        assert_eq!(headers["content-type"], "text/html; charset=utf-8");
        assert_eq!(headers["cache-control"], "no-store");
        assert!(
            text.contains("make build") && text.contains("/api/openapi.json"),
            "{text}"
        );
    }
    assert_eq!(get(&router, "/favicon.svg").await.0, StatusCode::NOT_FOUND);
}
