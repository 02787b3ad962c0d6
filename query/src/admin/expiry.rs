//! Expiry of a token: after a duration, at a time, or never.

use std::time::Duration;

use schemas::api_error::{ApiError, ErrorCode};
use schemas::timestamp::{UnixMs, parse_text};

/// Longest lifetime that can be given: a longer one is a typing error, since a token without expiry needs none.
const LONGEST: Duration = Duration::from_secs(3660 * 86_400);
const SHORTEST: Duration = Duration::from_secs(1);

/// The requested expiry; `None` for never. At most one of the two parameters may be given.
pub(super) fn expires_at(
    after: Option<&str>,
    at: Option<&str>,
    now_ms: UnixMs,
) -> Result<Option<UnixMs>, ApiError> {
    let invalid = |message: &str| Err(ApiError::new(ErrorCode::InvalidBody, message));
    let bounds_ms = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    match (after, at) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => invalid("give either `expires_in` or `expires_at`"),
        (Some(text), None) => match humantime::parse_duration(text) {
            Ok(life) if (SHORTEST..=LONGEST).contains(&life) => Ok(Some(now_ms + bounds_ms(life))),
            _ => invalid(
                "`expires_in` must be a duration from 1s to 3660d, for example \"12h\" or \"30d\"",
            ),
        },
        (None, Some(text)) => match parse_text(text) {
            Some(at_ms) if (now_ms + 1..=now_ms + bounds_ms(LONGEST)).contains(&at_ms) => {
                Ok(Some(at_ms))
            }
            Some(_) => invalid("`expires_at` must be in the future, within 3660 days"),
            None => invalid(
                "`expires_at` must be an ISO 8601 time, for example \"2027-01-31T00:00:00Z\"",
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: UnixMs = 1_795_168_800_000;

    #[test]
    fn a_token_expires_after_a_duration_at_a_time_or_never() {
        let day_ms = 86_400_000;
        assert_eq!(expires_at(None, None, NOW_MS), Ok(None));
        for text in ["30d", "720h", "29days 24h"] {
            let end = expires_at(Some(text), None, NOW_MS);
            assert_eq!(end, Ok(Some(NOW_MS + 30 * day_ms)), "{text}");
        }
        let end = expires_at(None, Some("2026-11-20T12:00:00+01:00"), NOW_MS);
        assert_eq!(end, Ok(Some(NOW_MS + 3_600_000)));
    }

    #[test]
    fn an_invalid_expiry_is_rejected_with_the_parameter() {
        for (after, at, word) in [
            (Some("30d"), Some("2027-01-01T00:00:00Z"), "either"),
            (Some("0s"), None, "expires_in"),
            (Some("-1d"), None, "expires_in"),
            (Some("11years"), None, "expires_in"),
            (Some("soon"), None, "expires_in"),
            (Some("99999999999999999999y"), None, "expires_in"),
            (None, Some("tomorrow"), "ISO 8601"),
            (None, Some("2026-11-20T10:00:00Z"), "in the future"),
            (None, Some("2999-01-01T00:00:00Z"), "3660 days"),
        ] {
            let error = expires_at(after, at, NOW_MS).unwrap_err();
            assert_eq!(error.status, 400);
            assert!(error.message.contains(word), "{}", error.message);
        }
    }
}
