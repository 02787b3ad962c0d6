//! Times in clients' formats, stored as Unix milliseconds UTC.

use chrono::{DateTime, NaiveDateTime, SecondsFormat, Utc};

/// Milliseconds since 1970-01-01T00:00:00Z.
pub type UnixMs = i64;

/// Parses ISO 8601 with any offset and precision, or without a zone (then UTC), with `T` or a blank between date and
/// time. Truncates to the millisecond.
pub fn parse_text(text: &str) -> Option<UnixMs> {
    parse_time(text).map(|time| time.timestamp_millis())
}

/// [`parse_text`] with the microsecond within the millisecond, if the text has more than three digits of a second.
pub(crate) fn parse_finely(text: &str) -> Option<(UnixMs, Option<u16>)> {
    let time = parse_time(text)?;
    let fraction = text.split('.').nth(1).unwrap_or_default().bytes();
    let is_fine = fraction.take_while(u8::is_ascii_digit).count() > 3;
    // Below a thousand. A leap second has more than a second's microseconds, and still fits.
    let microsecond = u16::try_from(time.timestamp_subsec_micros() % 1000).ok();
    Some((time.timestamp_millis(), microsecond.filter(|_| is_fine)))
}

fn parse_time(text: &str) -> Option<DateTime<Utc>> {
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Some(time.to_utc());
    }
    // RFC 3339 is what nearly every client sends; the rest is tried in the order of their frequency.
    for format in [
        "%Y-%m-%d %H:%M:%S%.f",
        "%Y-%m-%dT%H:%M:%S%.f",
        "%Y-%m-%dT%H:%M",
    ] {
        if let Ok(time) = NaiveDateTime::parse_from_str(text, format) {
            return Some(time.and_utc());
        }
    }
    for format in [
        "%Y-%m-%dT%H:%M:%S%.f%#z",
        "%Y-%m-%d %H:%M:%S%.f%#z",
        "%Y%m%dT%H%M%S%.f%#z",
    ] {
        if let Ok(time) = DateTime::parse_from_str(text, format) {
            return Some(time.to_utc());
        }
    }
    None
}

/// The time in the API's format: `2026-11-20T10:00:00.000Z`.
///
/// Times out of the calendar's range (year ±262,000) become the Unix epoch; such times are rejected on the way in, so
/// this does not happen to stored data.
pub fn to_text(time_ms: UnixMs) -> String {
    DateTime::<Utc>::from_timestamp_millis(time_ms)
        .unwrap_or_default()
        .to_rfc3339_opts(SecondsFormat::Millis, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_form_that_clients_send_means_the_same_moment() {
        let expected = 1_795_185_741_941;
        for text in [
            "2026-11-20T14:42:21.941Z",
            "2026-11-20T14:42:21.941077Z",
            "2026-11-20T14:42:21.941077+00:00",
            "2026-11-20T16:42:21.941+02:00",
            "2026-11-20T09:12:21.941-05:30",
            "2026-11-20 14:42:21.941077",
            "2026-11-20T14:42:21.941",
            "2026-11-20T14:42:21.941+0000",
            "2026-11-20T15:42:21.941+01",
            "2026-11-20 14:42:21.941999999Z",
        ] {
            assert_eq!(parse_text(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn the_microsecond_is_known_where_it_is_given() {
        for (text, microsecond) in [
            ("2026-11-20T14:42:21.941077Z", Some(77)),
            ("2026-11-20T14:42:21.941000+00:00", Some(0)),
            ("2026-11-20 14:42:21.9419", Some(900)),
            ("2026-11-20 14:42:21.941999999Z", Some(999)),
            ("2026-11-20T14:42:21.941Z", None),
            ("2026-11-20T14:42:21Z", None),
            ("1969-12-31T23:59:59.999900Z", Some(900)),
        ] {
            assert_eq!(parse_finely(text).unwrap().1, microsecond, "{text}");
        }
    }

    #[test]
    fn what_is_not_a_time_is_none() {
        for text in [
            "",
            "yesterday",
            "2026-13-01T00:00:00Z",
            "2026-11-20",
            "12:00",
            "1795185741941",
        ] {
            assert_eq!(parse_text(text), None, "{text}");
        }
    }

    #[test]
    fn times_before_the_epoch_are_cut_downwards() {
        assert_eq!(parse_text("1969-12-31T23:59:59.9999Z"), Some(-1));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(time_ms in -62_135_596_800_000i64..253_402_300_799_999) {
            prop_assert_eq!(parse_text(&to_text(time_ms)), Some(time_ms));
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}") {
            let _ = parse_text(&text);
        }
    }
}
