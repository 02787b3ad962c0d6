//! The cookie of a session: what the browser keeps, and what it is told to keep.

use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::COOKIE;

/// What the cookie is called.
const NAME: &str = "spindle_session";
/// Longest secret of a session that is looked up. They have 71 bytes; the bound keeps hashing small (X1).
const SECRET_BYTES: usize = 128;

/// The secret of the session in a request, if a cookie has one. Of several of the name, the first, which is that of the
/// longest path.
pub(crate) fn presented(headers: &HeaderMap) -> Option<String> {
    let lines = headers.get_all(COOKIE).iter();
    let pairs = lines.filter_map(|line| line.to_str().ok());
    let mut pairs = pairs.flat_map(|line| line.split(';'));
    let secret = pairs.find_map(|pair| {
        let (name, secret) = pair.trim().split_once('=')?;
        (name == NAME).then_some(secret)
    })?;
    (1..=SECRET_BYTES)
        .contains(&secret.len())
        .then(|| secret.to_owned())
}

/// What has the browser keep a secret for so long: out of reach of scripts, and only for requests from our own pages.
/// `is_secure` when the browser came over https; then it comes back over nothing else.
pub(crate) fn kept(secret: &str, life: Duration, is_secure: bool) -> String {
    let secure = if is_secure { "; Secure" } else { "" };
    format!(
        "{NAME}={secret}; HttpOnly; SameSite=Strict; Path=/; Max-Age={}{secure}",
        life.as_secs()
    )
}

/// What has the browser forget it.
pub(crate) fn forgotten(is_secure: bool) -> String {
    kept("", Duration::ZERO, is_secure)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn read(lines: &[&'static str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(COOKIE, HeaderValue::from_static(line));
        }
        presented(&headers)
    }

    #[test]
    fn the_session_is_found_among_other_cookies() {
        let found = Some("s".to_owned());
        assert_eq!(read(&["spindle_session=s"]), found);
        assert_eq!(read(&["a=b; spindle_session=s; c=d"]), found);
        assert_eq!(
            read(&["a=b", "c; spindle_session=s;spindle_session=t"]),
            found
        );
        for nothing in [
            "",
            "spindle_session",
            "spindle_session=",
            "xspindle_session=s",
            "a=spindle_session=s",
        ] {
            assert_eq!(read(&[nothing]), None, "{nothing}");
        }
        assert_eq!(read(&[]), None);
        assert_eq!(
            read(&[concat!(
                "spindle_session=",
                "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0"
            )]),
            None
        );
    }

    #[test]
    fn no_script_and_no_other_site_gets_it() {
        let kept = kept("s", Duration::from_secs(60), true);
        assert_eq!(
            kept,
            "spindle_session=s; HttpOnly; SameSite=Strict; Path=/; Max-Age=60; Secure"
        );
        assert!(forgotten(false).ends_with("Path=/; Max-Age=0"));
    }
}
