//! Queries in several rounds with changing values, and their times.

use std::time::Duration;

const DAY_MS: i64 = 86_400_000;

/// Parameters of a query: in each value, `{n}` becomes a number below n that differs from round to round, and `@n` the
/// time n days before `now_ms`, Unix milliseconds.
pub(crate) fn parameters(
    pairs: &[(&str, &str)],
    round: usize,
    now_ms: i64,
) -> Vec<(String, String)> {
    let vary = |(name, value): &(&str, &str)| ((*name).to_owned(), vary(value, round, now_ms));
    pairs.iter().map(vary).collect()
}

fn vary(text: &str, round: usize, now_ms: i64) -> String {
    if let Some(days) = text
        .strip_prefix('@')
        .and_then(|days| days.parse::<i64>().ok())
    {
        return (now_ms - days * DAY_MS).to_string();
    }
    match text
        .split_once('{')
        .and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    {
        Some((before, (below, after))) => {
            let below: usize = below.parse().unwrap_or(1);
            format!("{before}{}{after}", round * 7919 % below)
        }
        None => text.to_owned(),
    }
}

/// A time some days before `now_ms` that differs from round to round, Unix milliseconds.
pub(crate) fn long_ago(round: usize, now_ms: i64) -> i64 {
    now_ms - (1 + round as i64 * 7 % 25) * DAY_MS
}

/// What one query took.
pub(crate) struct Line {
    pub(crate) name: String,
    /// Of first pages.
    pub(crate) first: Quantiles,
}

/// Median and 95th percentile, milliseconds; NaN without values.
#[derive(Clone, Copy)]
pub(crate) struct Quantiles {
    pub(crate) p50: f64,
    pub(crate) p95: f64,
}

impl Quantiles {
    pub(crate) fn of(mut times: Vec<Duration>) -> Self {
        times.sort();
        let at = |part: f64| {
            times
                .get((times.len() as f64 * part) as usize)
                .map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
        };
        Self {
            p50: at(0.5),
            p95: at(0.95),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_change_with_the_round_and_stay_below_their_bound() {
        let pairs = [("model", "model-{12}"), ("from", "@2"), ("tags", "eu")];
        let at = |round| parameters(&pairs, round, 200_000_000);
        assert_eq!(at(0)[0].1, "model-0");
        assert_eq!(at(1)[0].1, format!("model-{}", 7919 % 12));
        assert_eq!(
            (at(1)[1].1.as_str(), at(1)[2].1.as_str()),
            ("27200000", "eu")
        );
    }
}
