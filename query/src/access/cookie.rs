//! The cookie of a session: what the browser keeps, and what it is told to keep.

use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::COOKIE;

/// What the cookie is called over http.
const NAME: &str = "spindle_session";
/// What it is called over https. Browsers take one of this name from this very host only, over https and for all of its
/// paths, so that no neighbour and no other port can put one of theirs in its place.
const SAFE_NAME: &str = "__Host-spindle_session";
/// What every secret of a session begins with.
const PREFIX: &[u8] = b"sp_ses_";
/// Longest secret of a session that is looked up. They have 71 bytes; the bound keeps hashing small (X1).
const SECRET_BYTES: usize = 128;

/// The secret of the session in a request, if a cookie has one. What cannot be one is passed over: other programs of the
/// host have cookies too, of any bytes. Where the browser is known to speak https, only the safe name counts.
pub(crate) fn presented(headers: &HeaderMap, is_secure: bool) -> Option<String> {
    let named = |wanted: &str| {
        let lines = headers.get_all(COOKIE).iter();
        let pairs = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b';'));
        let mut secrets = pairs.filter_map(|pair| {
            let pair = pair.trim_ascii();
            let secret = pair.strip_prefix(wanted.as_bytes())?.strip_prefix(b"=")?;
            let is_one = secret.starts_with(PREFIX) && secret.len() <= SECRET_BYTES;
            is_one.then(|| String::from_utf8(secret.to_owned()).ok())?
        });
        secrets.next()
    };
    match named(SAFE_NAME) {
        None if !is_secure => named(NAME),
        found => found,
    }
}

/// What has the browser keep a secret for so long: out of reach of scripts, and only for requests from our own pages.
/// `is_secure` when the browser came over https; then it comes back over nothing else.
pub(crate) fn kept(secret: &str, life: Duration, is_secure: bool) -> String {
    let (name, secure) = if is_secure {
        (SAFE_NAME, "; Secure")
    } else {
        (NAME, "")
    };
    format!(
        "{name}={secret}; HttpOnly; SameSite=Strict; Path=/; Max-Age={}{secure}",
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

    fn read(lines: &[&'static [u8]], is_secure: bool) -> Option<String> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(COOKIE, HeaderValue::from_bytes(line).unwrap());
        }
        presented(&headers, is_secure)
    }

    #[test]
    fn the_session_is_found_among_other_cookies() {
        let found = Some("sp_ses_1".to_owned());
        let lines: [&[&'static [u8]]; 5] = [
            &[b"spindle_session=sp_ses_1"],
            &[b"a=b; spindle_session=sp_ses_1; c=d"],
            &[
                b"a=b",
                b"c; spindle_session=sp_ses_1;spindle_session=sp_ses_2",
            ],
            &[b"x=\xc3\xa4\xff; spindle_session=sp_ses_1"],
            &[b"spindle_session=; spindle_session=junk; spindle_session=sp_ses_1"],
        ];
        for lines in lines {
            assert_eq!(read(lines, false), found, "{lines:?}");
        }
        let nothing: [&[u8]; 6] = [
            b"",
            b"spindle_session",
            b"spindle_session=",
            b"xspindle_session=sp_ses_1",
            b"a=spindle_session=sp_ses_1",
            b"spindle_session=sp_ses_\xff",
        ];
        for line in nothing {
            assert_eq!(read(&[line], false), None, "{line:?}");
        }
        assert_eq!(read(&[], false), None);
        let long = format!("spindle_session=sp_ses_{}", "0".repeat(SECRET_BYTES));
        assert_eq!(read(&[long.leak().as_bytes()], false), None);
    }

    #[test]
    fn over_https_nobody_else_can_put_a_session_in_its_place() {
        let planted: &[u8] = b"spindle_session=sp_ses_theirs";
        let safe: &[u8] = b"spindle_session=sp_ses_theirs; __Host-spindle_session=sp_ses_1";
        let found = Some("sp_ses_1".to_owned());
        assert_eq!(read(&[safe], true), found);
        assert_eq!(read(&[safe], false), found);
        assert_eq!(read(&[planted], true), None);
    }

    #[test]
    fn no_script_and_no_other_site_gets_it() {
        let kept = kept("s", Duration::from_secs(60), true);
        assert_eq!(
            kept,
            "__Host-spindle_session=s; HttpOnly; SameSite=Strict; Path=/; Max-Age=60; Secure"
        );
        let over_http = forgotten(false);
        assert!(over_http.starts_with("spindle_session=; "));
        assert!(over_http.ends_with("Path=/; Max-Age=0"));
    }
}
