//! Parses the pairs of a query string to a [`Question`].

use std::collections::BTreeSet;

use serde::Serialize;
use utoipa::ToSchema;

use super::{BUCKETS_MAX, DEFAULT_DAYS, Interval};
use crate::api_error::ApiError;
use crate::filter::{RunFilter, RunQuery, Word, invalid_parameter, unknown_parameters};
use crate::limits::{EARLIEST_TIMESTAMP_MS, FUTURE_TIMESTAMP_MS};
use crate::timestamp::UnixMs;

/// Parameters of a list without a meaning for a sum.
const OF_LISTS: [&str; 4] = ["sort", "limit", "cursor", "count"];

/// What groups are made by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(rename_all = "snake_case")]
pub enum GroupBy {
    /// The model.
    Model,
    /// The agent, inherited ones included.
    Agent,
    /// The user, inherited ones included.
    UserEmail,
    /// The app id; equal ids in several projects form one group.
    AppId,
    /// The name of the error, or the beginning of its message where it has no name.
    Reason,
}

/// A query over many runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// `from` is always set.
    pub filter: RunFilter,
    /// The earliest start of a run, Unix milliseconds.
    pub from_ms: UnixMs,
    /// One of the client's projects; `None` for all that the credential reaches.
    pub project_id: Option<String>,
    /// Set for a series.
    pub interval: Option<Interval>,
    pub group_by: Option<GroupBy>,
}

impl Question {
    /// Parses the pairs of a query string: the filters of the run list, and of `interval` and `group_by` the ones in
    /// `extra`.
    ///
    /// Without `from` the range begins at the start of the day [`DEFAULT_DAYS`] before `to`, or before now.
    ///
    /// # Errors
    /// A 400 that names the parameter, its value and the rule.
    pub fn from_pairs<'a, I>(pairs: I, extra: &[&str], now_ms: UnixMs) -> Result<Self, ApiError>
    where
        I: IntoIterator<Item = (&'a str, &'a str)>,
    {
        let (mut interval, mut group_by) = (None, None);
        let mut unknown = BTreeSet::new();
        let mut of_filter = Vec::new();
        for (name, value) in pairs {
            match name {
                "interval" | "group_by" if !extra.contains(&name) => {
                    unknown.insert(name);
                }
                "interval" => set(&mut interval, name, value)?,
                "group_by" => set(&mut group_by, name, value)?,
                _ => of_filter.push((name, value)),
            }
        }
        if !unknown.is_empty() {
            return Err(unknown_parameters(&unknown));
        }
        let query = unpaged(of_filter)?;
        let mut question = Self {
            from_ms: first_ms(&query.filter, now_ms),
            filter: query.filter,
            project_id: query.project_id,
            interval,
            group_by,
        };
        question.filter.from_ms = Some(question.from_ms);
        question.check_buckets(now_ms)?;
        Ok(question)
    }

    fn check_buckets(&self, now_ms: UnixMs) -> Result<(), ApiError> {
        let Some(interval) = self.interval else {
            return Ok(());
        };
        let last_ms = now_ms.saturating_add(FUTURE_TIMESTAMP_MS);
        let last_ms = self.filter.to_ms.unwrap_or(last_ms).min(last_ms);
        let first_ms = self.from_ms.max(EARLIEST_TIMESTAMP_MS);
        let bucket = |time_ms: i64| time_ms.div_euclid(interval.length_ms());
        if bucket(last_ms) - bucket(first_ms) < BUCKETS_MAX {
            return Ok(());
        }
        let (value, longer) = match interval {
            Interval::Hour => ("hour", "or take `day`"),
            Interval::Day => ("day", "or leave it out"),
        };
        let allowed = format!(
            "at most {BUCKETS_MAX} buckets: narrow the time with `from` and `to`, {longer}"
        );
        Err(invalid_parameter("interval", value, &allowed))
    }
}

/// Parses the filters of the run list without paging and order.
///
/// # Errors
/// A 400 that names the parameter, its value and the rule.
pub fn unpaged<'a, I>(pairs: I) -> Result<RunQuery, ApiError>
where
    I: IntoIterator<Item = (&'a str, &'a str)>,
{
    let pairs: Vec<(&str, &str)> = pairs.into_iter().collect();
    let names = pairs.iter().map(|(name, _)| *name);
    let unknown: BTreeSet<&str> = names.filter(|name| OF_LISTS.contains(name)).collect();
    if !unknown.is_empty() {
        return Err(unknown_parameters(&unknown));
    }
    RunQuery::from_pairs(pairs)
}

/// The earliest start of a run.
fn first_ms(filter: &RunFilter, now_ms: UnixMs) -> UnixMs {
    const DAY_MS: i64 = 86_400_000;
    match (filter.from_ms, filter.to_ms) {
        (Some(from_ms), _) => from_ms,
        (None, to_ms) => {
            let end_ms = to_ms.unwrap_or(now_ms).min(now_ms);
            let day = end_ms.div_euclid(DAY_MS) - DEFAULT_DAYS;
            day.saturating_mul(DAY_MS)
        }
    }
}

fn set<W: Word>(place: &mut Option<W>, name: &str, value: &str) -> Result<(), ApiError> {
    match place.replace(W::read(name, value)?) {
        None => Ok(()),
        Some(_) => Err(invalid_parameter(name, value, "given once")),
    }
}

impl Word for Interval {
    const ALL: &'static [Self] = &[Self::Hour, Self::Day];
    const NAMES: &'static [&'static str] = &["hour", "day"];
}

/// The groups that `group_by` chooses from; others are the subject of an operation.
impl Word for GroupBy {
    const ALL: &'static [Self] = &[Self::Model, Self::Agent];
    const NAMES: &'static [&'static str] = &["model", "agent"];
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: UnixMs = 1_795_168_800_000;

    fn ask(pairs: &[(&str, &str)]) -> Result<Question, ApiError> {
        Question::from_pairs(pairs.iter().copied(), &["interval", "group_by"], NOW_MS)
    }

    #[test]
    fn without_from_it_begins_thirty_days_before_the_end_at_midnight() {
        let midnight = |ms: i64| ms.rem_euclid(86_400_000) == 0;
        let open = ask(&[]).unwrap();
        assert!(midnight(open.from_ms) && (NOW_MS - open.from_ms) / 86_400_000 == 30);
        let past = ask(&[("to", "2026-03-31T12:00:00Z")]).unwrap();
        assert_eq!(
            crate::timestamp::to_text(past.from_ms),
            "2026-03-01T00:00:00.000Z"
        );
        assert_eq!(past.filter.from_ms, Some(past.from_ms));
        assert_eq!(ask(&[("from", "5")]).unwrap().from_ms, 5);
    }

    #[test]
    fn what_pages_a_list_or_is_not_known_is_refused_by_name() {
        for (name, value) in [
            ("limit", "5"),
            ("sort", "started_at"),
            ("cursor", "x"),
            ("count", "true"),
            ("colour", "red"),
            ("interval", "week"),
            ("group_by", "reason"),
            ("status", "done"),
        ] {
            let fault = ask(&[(name, value)]).unwrap_err();
            assert!(
                fault.status == 400 && fault.message.contains(name),
                "{fault:?}"
            );
        }
        let twice = ask(&[("interval", "day"), ("interval", "day")]).unwrap_err();
        assert!(twice.message.contains("once"), "{twice:?}");
        let nowhere = Question::from_pairs([("group_by", "model")], &["interval"], NOW_MS);
        assert!(nowhere.unwrap_err().message.contains("group_by"));
    }

    #[test]
    fn more_buckets_than_an_answer_holds_are_refused() {
        assert!(ask(&[("interval", "hour")]).is_ok());
        assert!(ask(&[("interval", "hour"), ("from", "2026-01-01")]).is_err());
        assert!(ask(&[("interval", "day"), ("from", "2026-01-01")]).is_ok());
        assert!(ask(&[("interval", "day"), ("from", "0")]).is_err());
        assert!(
            ask(&[
                ("interval", "hour"),
                ("from", "2026-01-01"),
                ("to", "2026-02-01")
            ])
            .is_ok()
        );
        // Bounds far out of range are clamped too.
        assert!(
            ask(&[
                ("interval", "day"),
                ("from", "-9000000000000000"),
                ("to", "9000000000000000")
            ])
            .is_err()
        );
        assert!(ask(&[("to", "-9000000000000000000")]).is_ok());
    }
}
