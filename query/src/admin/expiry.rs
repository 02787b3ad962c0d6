//! When a token ends by itself: after a while, at a moment, or never.

use std::time::Duration;

use schemas::fault::Fault;
use schemas::timestamp::{UnixMs, parse_text};

/// The longest life, as a duration: a token for ever has no end, and one beyond this is a slip of the pen.
const LONGEST: Duration = Duration::from_secs(3660 * 86_400);
/// The shortest: less is over before it is used.
const SHORTEST: Duration = Duration::from_secs(1);

/// The end that was asked for at `now_ms`; `None` for never. At most one of both may be given.
pub(super) fn ends_at(
    expires_in: Option<&str>,
    expires_at: Option<&str>,
    now_ms: UnixMs,
) -> Result<Option<UnixMs>, Fault> {
    let invalid = |message: &str| Err(Fault::bad_request("invalid_body", message));
    let bounds_ms = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    match (expires_in, expires_at) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => invalid("`expires_in` and `expires_at` exclude each other"),
        (Some(text), None) => match humantime::parse_duration(text) {
            Ok(life) if (SHORTEST..=LONGEST).contains(&life) => Ok(Some(now_ms + bounds_ms(life))),
            _ => invalid(
                "`expires_in` has to be a duration such as \"12h\" or \"30d\", from 1s to 3660d",
            ),
        },
        (None, Some(text)) => match parse_text(text) {
            Some(at_ms) if (now_ms + 1..=now_ms + bounds_ms(LONGEST)).contains(&at_ms) => {
                Ok(Some(at_ms))
            }
            Some(_) => invalid("`expires_at` has to be in the future, and within 3660 days"),
            None => invalid(
                "`expires_at` has to be a time in ISO 8601, such as \"2027-01-31T00:00:00Z\"",
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: UnixMs = 1_795_168_800_000;

    #[test]
    fn a_token_ends_after_a_while_at_a_moment_or_never() {
        let day_ms = 86_400_000;
        assert_eq!(ends_at(None, None, NOW_MS), Ok(None));
        for text in ["30d", "720h", "29days 24h"] {
            let end = ends_at(Some(text), None, NOW_MS);
            assert_eq!(end, Ok(Some(NOW_MS + 30 * day_ms)), "{text}");
        }
        let end = ends_at(None, Some("2026-11-20T12:00:00+01:00"), NOW_MS);
        assert_eq!(end, Ok(Some(NOW_MS + 3_600_000)));
    }

    #[test]
    fn an_end_that_cannot_be_meant_is_refused_and_named() {
        for (expires_in, expires_at, word) in [
            (Some("30d"), Some("2027-01-01T00:00:00Z"), "exclude"),
            (Some("0s"), None, "expires_in"),
            (Some("-1d"), None, "expires_in"),
            (Some("11years"), None, "expires_in"),
            (Some("soon"), None, "expires_in"),
            (Some("99999999999999999999y"), None, "expires_in"),
            (None, Some("tomorrow"), "ISO 8601"),
            (None, Some("2026-11-20T10:00:00Z"), "in the future"),
            (None, Some("2999-01-01T00:00:00Z"), "3660 days"),
        ] {
            let fault = ends_at(expires_in, expires_at, NOW_MS).unwrap_err();
            assert_eq!(fault.status, 400);
            assert!(fault.message.contains(word), "{}", fault.message);
        }
    }
}
