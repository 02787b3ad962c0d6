//! `/x/`, `/x` and `//x` are the same path: collapsed before routing, because layers of a router run after it.
//!
//! Clients concatenate a base URL and a path, so doubled slashes are common.

use axum::http::Uri;
use axum::http::uri::{Parts, PathAndQuery};

/// Collapses runs of slashes and drops a trailing one. Leaves other paths untouched, without an allocation.
pub(crate) fn normalise(uri: &mut Uri) {
    let path = uri.path();
    if !path.contains("//") && (path.len() <= 1 || !path.ends_with('/')) {
        return;
    }
    let mut clean = String::with_capacity(uri.path_and_query().map_or(1, |all| all.as_str().len()));
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        clean.push('/');
        clean.push_str(segment);
    }
    if clean.is_empty() {
        clean.push('/');
    }
    if let Some(query) = uri.query() {
        clean.push('?');
        clean.push_str(query);
    }
    // Removing slashes from a valid path leaves it valid; if that ever failed, the path would stay and match no route.
    if let Ok(clean) = PathAndQuery::try_from(clean) {
        let mut parts: Parts = std::mem::take(uri).into_parts();
        parts.path_and_query = Some(clean);
        *uri = Uri::from_parts(parts).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalised(text: &str) -> String {
        let mut uri: Uri = text.parse().unwrap();
        normalise(&mut uri);
        uri.to_string()
    }

    #[test]
    fn slashes_collapse_and_the_last_one_goes() {
        for (given, expected) in [
            ("/", "/"),
            ("//", "/"),
            ("/api/run", "/api/run"),
            ("/api/run/", "/api/run"),
            ("//api/report", "/api/report"),
            ("//api///run//", "/api/run"),
            ("/api/run/?a=//b/", "/api/run?a=//b/"),
            ("/p/a%2Fb%2F/", "/p/a%2Fb%2F"),
            ("http://host//api/run/?q=1", "http://host/api/run?q=1"),
        ] {
            assert_eq!(normalised(given), expected, "{given}");
        }
    }
}
