//! The headers that say what a browser may do with a page of ours.

use axum::Router;
use axum::http::header::{CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::map_response;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const PERMISSIONS_POLICY: HeaderName = HeaderName::from_static("permissions-policy");

/// What a page may load and where it may send something: this server and nothing else. What somebody reported is shown
/// as text, and if it were taken for markup all the same it could neither run nor tell anybody. `style` is one more
/// style that counts, in the page itself.
fn policy(style: Option<&str>) -> Option<HeaderValue> {
    let hash = |style: &str| format!(" 'sha256-{}'", STANDARD.encode(Sha256::digest(style)));
    let style = style.map(hash).unwrap_or_default();
    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src 'self'{style}; img-src 'self' data:; font-src 'self'; \
         connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).ok()
}

/// Puts the headers on every answer of these routes. `style` is what a page has as its style in itself.
pub(crate) fn guarded(routes: Router, style: Option<&str>) -> Router {
    let policy = policy(style);
    routes.layer(map_response(move |mut response: Response| {
        let policy = policy.clone();
        async move {
            let headers = response.headers_mut();
            let mut set = |name, value| headers.insert(name, HeaderValue::from_static(value));
            set(X_CONTENT_TYPE_OPTIONS, "nosniff");
            set(REFERRER_POLICY, "no-referrer");
            set(OPENER_POLICY, "same-origin");
            set(
                PERMISSIONS_POLICY,
                "camera=(), microphone=(), geolocation=()",
            );
            if let Some(policy) = policy {
                headers.insert(CONTENT_SECURITY_POLICY, policy);
            }
            response
        }
    }))
}
