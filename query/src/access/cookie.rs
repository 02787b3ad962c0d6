//! The session cookie.

use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::COOKIE;

/// Name of the cookie over http.
const NAME: &str = "spindle_session";
/// Name over https. For this prefix browsers accept a cookie only from this host, over https and for all paths, so that
/// no other host of the domain and no other port can plant one.
const SAFE_NAME: &str = "__Host-spindle_session";
/// Every session secret begins with this.
const PREFIX: &[u8] = b"sp_ses_";
/// Longest session secret that is looked up. They have 71 bytes; the bound keeps hashing small (X1).
const SECRET_BYTES: usize = 128;

/// The session secret of a request, if it has one. Other cookies of the host are ignored, whatever their bytes. Over
/// https only [`SAFE_NAME`] is read.
pub(crate) fn session_secret(headers: &HeaderMap, is_secure: bool) -> Option<String> {
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

/// `Set-Cookie` that stores a secret, hidden from scripts and sent only with requests from pages of this server;
/// with `is_secure` only over https.
pub(crate) fn set(secret: &str, lifetime: Duration, is_secure: bool) -> String {
    let (name, secure) = if is_secure {
        (SAFE_NAME, "; Secure")
    } else {
        (NAME, "")
    };
    format!(
        "{name}={secret}; HttpOnly; SameSite=Strict; Path=/; Max-Age={}{secure}",
        lifetime.as_secs()
    )
}

/// `Set-Cookie` that deletes the cookie.
pub(crate) fn delete(is_secure: bool) -> String {
    set("", Duration::ZERO, is_secure)
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
        session_secret(&headers, is_secure)
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
    fn over_https_no_other_host_can_plant_a_session() {
        let planted: &[u8] = b"spindle_session=sp_ses_theirs";
        let safe: &[u8] = b"spindle_session=sp_ses_theirs; __Host-spindle_session=sp_ses_1";
        let found = Some("sp_ses_1".to_owned());
        assert_eq!(read(&[safe], true), found);
        assert_eq!(read(&[safe], false), found);
        assert_eq!(read(&[planted], true), None);
    }

    #[test]
    fn the_cookie_is_hidden_from_scripts_and_other_sites() {
        let cookie = set("s", Duration::from_secs(60), true);
        assert_eq!(
            cookie,
            "__Host-spindle_session=s; HttpOnly; SameSite=Strict; Path=/; Max-Age=60; Secure"
        );
        let over_http = delete(false);
        assert!(over_http.starts_with("spindle_session=; "));
        assert!(over_http.ends_with("Path=/; Max-Age=0"));
    }
}
