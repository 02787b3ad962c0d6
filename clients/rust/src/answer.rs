//! The meaning of a response to a batch. Pure.

use std::time::Duration;

use serde::Deserialize;

/// Upper bound on the doubled wait between two attempts.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// Upper bound on a `Retry-After`.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// Result of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The server has the batch, and accepted and rejected so many of its events.
    Taken {
        accepted: u64,
        rejected: u64,
        /// The reason of the first rejection.
        reason: Option<String>,
    },
    /// A retry may succeed, after this time if the server gives one.
    Later {
        why: String,
        after: Option<Duration>,
    },
    /// No retry can succeed.
    Never { why: String },
}

/// The fields that are read of a response.
#[derive(Deserialize)]
struct Report {
    accepted: u64,
    rejected: u64,
    #[serde(default)]
    errors: Vec<Reason>,
}

#[derive(Deserialize)]
struct Reason {
    code: String,
    message: String,
}

pub(crate) fn outcome(status: u16, retry_after: Option<&str>, body: &[u8]) -> Outcome {
    match status {
        200 => match serde_json::from_slice::<Report>(body) {
            Ok(report) => Outcome::Taken {
                accepted: report.accepted,
                rejected: report.rejected,
                reason: report
                    .errors
                    .first()
                    .map(|reason| format!("{}: {}", reason.code, reason.message)),
            },
            // The response does not come from Spindle.
            Err(_) => Outcome::Never {
                why: "the answer is not that of a Spindle server".to_owned(),
            },
        },
        408 | 429 | 500..=599 => Outcome::Later {
            why: format!("the server answered {status}"),
            // In seconds; the form with a date is ignored.
            after: retry_after
                .and_then(|text| text.trim().parse().ok())
                .map(Duration::from_secs),
        },
        _ => Outcome::Never {
            why: format!("the server answered {status}"),
        },
    }
}

/// The wait before retry number `retry`, counted from 0: `first`, doubled each time, and no less than the server's
/// `Retry-After`, both within their bounds. `share`, from 0 to 1, adds up to a quarter, to spread clients that failed
/// together.
pub(crate) fn wait(retry: u32, first: Duration, after: Option<Duration>, share: f64) -> Duration {
    let doubled = first.saturating_mul(1u32.checked_shl(retry.min(31)).unwrap_or(u32::MAX));
    let asked = after.unwrap_or_default().min(RETRY_AFTER_MAX);
    let wait = doubled.min(WAIT_MAX).max(asked);
    wait.mul_f64(1.0 + 0.25 * share.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_whether_to_try_again() {
        let body = br#"{"accepted":1,"rejected":1,"errors":[{"index":1,"code":"too_long","message":"events[1].name"}]}"#;
        let taken = Outcome::Taken {
            accepted: 1,
            rejected: 1,
            reason: Some("too_long: events[1].name".to_owned()),
        };
        assert_eq!(outcome(200, None, body), taken);
        assert!(matches!(
            outcome(200, None, b"<html>"),
            Outcome::Never { .. }
        ));
        for status in [408, 429, 500, 502, 503, 599] {
            assert!(
                matches!(outcome(status, None, b""), Outcome::Later { .. }),
                "{status}"
            );
        }
        for status in [201, 204, 301, 400, 401, 403, 404, 413, 415, 422] {
            assert!(
                matches!(outcome(status, None, body), Outcome::Never { .. }),
                "{status}"
            );
        }
        for (given, read) in [
            ("3", Some(3)),
            (" 7 ", Some(7)),
            ("soon", None),
            ("-1", None),
        ] {
            let Outcome::Later { after, .. } = outcome(429, Some(given), b"") else {
                panic!("{given}");
            };
            assert_eq!(after, read.map(Duration::from_secs), "{given}");
        }
    }

    #[test]
    fn waits_double_within_bounds_and_the_server_counts_more() {
        let s = Duration::from_secs;
        let of = |retry, after: Option<u64>| wait(retry, s(1), after.map(s), 0.0);
        assert_eq!([of(0, None), of(1, None), of(3, None)], [s(1), s(2), s(8)]);
        assert_eq!([of(5, None), of(31, None), of(u32::MAX, None)], [s(30); 3]);
        assert_eq!([of(0, Some(9)), of(5, Some(9))], [s(9), s(30)]);
        assert_eq!(of(0, Some(86_400)), s(60));
        assert_eq!(wait(0, s(4), None, 1.0), s(5));
    }
}
