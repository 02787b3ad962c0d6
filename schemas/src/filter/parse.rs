//! From the pairs of a query string to a [`RunQuery`].

use std::collections::BTreeSet;

use chrono::{Days, NaiveDate};
use rust_decimal::{Decimal, RoundingStrategy};
use serde_json::json;

use super::{
    FILTER_METADATA_KEYS, FILTER_NUMBER_MAX, FILTER_TAGS, FeedbackFilter, LIMIT_MAX, RunQuery,
    Sort, invalid_parameter, text_length,
};
use crate::fault::Fault;
use crate::fold::Status;
use crate::limits::ID_BYTES;
use crate::timestamp::{UnixMs, parse_text};

/// Digits after the point of a cost, as the table keeps it.
const COST_SCALE: u32 = 18;
/// Characters of a number that is read digit by digit: a decimal holds 29 digits, and the longest number that a program
/// prints has some 330. The reader of decimals takes a stack frame for each leading zero unless the compiler removes it.
const NUMBER_CHARS: usize = 512;
const INSTANT: &str = "an ISO 8601 time such as 2026-11-20T10:00:00.000Z, with any offset, a date, or integer milliseconds since 1970";

pub(super) fn run_query<'a, I>(pairs: I) -> Result<RunQuery, Fault>
where
    I: IntoIterator<Item = (&'a str, &'a str)>,
{
    let mut query = RunQuery::default();
    let mut seen = BTreeSet::new();
    let mut unknown = BTreeSet::new();
    let mut tags = BTreeSet::new();
    let mut tags_all = BTreeSet::new();
    for (name, value) in pairs {
        match name {
            "tags" | "tags[]" => add_tags(&mut tags, name, value)?,
            "tags_all" | "tags_all[]" => add_tags(&mut tags_all, name, value)?,
            _ if !seen.insert(name) => {
                return Err(invalid_parameter(name, value, "given once"));
            }
            _ => {
                if !set(&mut query, name, value)? {
                    unknown.insert(name);
                }
            }
        }
    }
    if !unknown.is_empty() {
        return Err(unknown_parameters(&unknown));
    }
    query.filter.tags = tags.into_iter().collect();
    query.filter.tags_all = tags_all.into_iter().collect();
    query.filter.metadata.sort();
    ordered(&query)?;
    Ok(query)
}

/// Sets one single-valued parameter. `false` when nobody knows it.
fn set(query: &mut RunQuery, name: &str, value: &str) -> Result<bool, Fault> {
    let filter = &mut query.filter;
    match name {
        "app_id" => filter.app_id = text(name, value)?,
        "model" => filter.model = text(name, value)?,
        "agent" => filter.agent = text(name, value)?,
        "user_email" => filter.user_email = text(name, value)?,
        "type" => filter.kind = text(name, value)?,
        "name" => filter.name = text(name, value)?,
        "thread_id" => filter.thread_id = text(name, value)?,
        "parent_run_id" => filter.parent_run_id = text(name, value)?,
        "q" => filter.text = text(name, value)?,
        "project_id" => query.project_id = text(name, value)?,
        "cursor" => query.cursor = text(name, value)?,
        "root" => filter.root = Some(flag(name, value)?),
        "saved" => filter.saved = Some(flag(name, value)?),
        "stale" => filter.stale = Some(flag(name, value)?),
        "count" => query.count = flag(name, value)?,
        "status" => filter.status = Some(status(name, value)?),
        "feedback" => filter.feedback = Some(feedback(name, value)?),
        "sort" => query.sort = sort(name, value)?,
        "limit" => query.limit = limit(name, value)?,
        "min_latency_s" => {
            filter.min_latency_ms = Some(latency_ms(
                name,
                value,
                RoundingStrategy::ToPositiveInfinity,
            )?)
        }
        "max_latency_s" => {
            filter.max_latency_ms = Some(latency_ms(
                name,
                value,
                RoundingStrategy::ToNegativeInfinity,
            )?)
        }
        "min_cost" => {
            filter.min_cost = Some(cost(name, value, RoundingStrategy::ToPositiveInfinity)?)
        }
        "max_cost" => {
            filter.max_cost = Some(cost(name, value, RoundingStrategy::ToNegativeInfinity)?)
        }
        "from" => filter.from_ms = Some(instant(name, value, Edge::First)?),
        "to" => filter.to_ms = Some(instant(name, value, Edge::Last)?),
        _ => match name.strip_prefix("metadata.") {
            Some(key) => {
                if key.is_empty()
                    || key.len() > ID_BYTES
                    || filter.metadata.len() == FILTER_METADATA_KEYS
                {
                    let allowed = format!(
                        "`metadata.<key>` with a key of 1 to {ID_BYTES} bytes, at most {FILTER_METADATA_KEYS} of them"
                    );
                    return Err(invalid_parameter(name, value, &allowed));
                }
                if let Some(value) = text(name, value)? {
                    filter.metadata.push((key.to_owned(), value));
                }
            }
            None => return Ok(false),
        },
    }
    Ok(true)
}

/// A 400 that names parameters nobody knows here.
pub(crate) fn unknown_parameters(names: &BTreeSet<&str>) -> Fault {
    let shown: Vec<String> = names
        .iter()
        .take(20)
        .map(|name| name.chars().take(100).collect())
        .collect();
    Fault::bad_request(
        "unknown_parameter",
        format!("unknown query parameter: `{}`", shown.join("`, `")),
    )
    .with_details(json!({ "parameters": shown }))
}

/// Bounds must not be above their counterparts.
fn ordered(query: &RunQuery) -> Result<(), Fault> {
    let filter = &query.filter;
    let crossed = |low: &str, high: &str| {
        Err(Fault::bad_request(
            "invalid_parameter",
            format!("`{low}` must not be above `{high}`"),
        )
        .with_details(json!({"parameter": low, "other": high})))
    };
    if let (Some(low), Some(high)) = (filter.min_latency_ms, filter.max_latency_ms)
        && low > high
    {
        return crossed("min_latency_s", "max_latency_s");
    }
    if let (Some(low), Some(high)) = (filter.min_cost, filter.max_cost)
        && low > high
    {
        return crossed("min_cost", "max_cost");
    }
    if let (Some(low), Some(high)) = (filter.from_ms, filter.to_ms)
        && low > high
    {
        return crossed("from", "to");
    }
    Ok(())
}

fn text(name: &str, value: &str) -> Result<Option<String>, Fault> {
    // Characters, not bytes: it is what a client can count, and a longer text only finds nothing.
    let most = text_length(name);
    if value.is_empty() || value.chars().count() > most {
        return Err(invalid_parameter(
            name,
            value,
            &format!("text of 1 to {most} characters"),
        ));
    }
    Ok(Some(value.to_owned()))
}

fn flag(name: &str, value: &str) -> Result<bool, Fault> {
    match value {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(invalid_parameter(name, value, "true, false")),
    }
}

fn status(name: &str, value: &str) -> Result<Status, Fault> {
    match value {
        "success" => Ok(Status::Success),
        "error" => Ok(Status::Error),
        "started" => Ok(Status::Started),
        _ => Err(invalid_parameter(name, value, "success, error, started")),
    }
}

fn feedback(name: &str, value: &str) -> Result<FeedbackFilter, Fault> {
    match value {
        "positive" => Ok(FeedbackFilter::Positive),
        "negative" => Ok(FeedbackFilter::Negative),
        "any" => Ok(FeedbackFilter::Any),
        "none" => Ok(FeedbackFilter::None),
        _ => Err(invalid_parameter(
            name,
            value,
            "positive, negative, any, none",
        )),
    }
}

fn sort(name: &str, value: &str) -> Result<Sort, Fault> {
    match Sort::ALL.iter().find(|(_, known)| *known == value) {
        Some((sort, _)) => Ok(*sort),
        None => {
            let names: Vec<&str> = Sort::ALL.iter().map(|(_, known)| *known).collect();
            Err(invalid_parameter(name, value, &names.join(", ")))
        }
    }
}

fn limit(name: &str, value: &str) -> Result<u32, Fault> {
    match value.parse() {
        Ok(limit @ 1..=LIMIT_MAX) => Ok(limit),
        _ => Err(invalid_parameter(
            name,
            value,
            &format!("a whole number from 1 to {LIMIT_MAX}"),
        )),
    }
}

/// A number from 0 to [`FILTER_NUMBER_MAX`], exactly as written. NaN and infinities are no numbers.
fn number(value: &str) -> Option<Decimal> {
    let approximate: f64 = value.parse().ok()?;
    if !(0.0..=FILTER_NUMBER_MAX as f64).contains(&approximate) {
        return None;
    }
    // No decimal is exact for so many digits, and `f64` was read without recursion.
    let exact: Option<Decimal> = if value.len() > NUMBER_CHARS {
        None
    } else if value.contains(['e', 'E']) {
        Decimal::from_scientific(value).ok()
    } else {
        value.parse().ok()
    };
    match exact {
        Some(number) => Some(number.abs()),
        // Written finer than a decimal holds, `5e-324` or `1.5e-30`: what counts is that it is above nothing.
        None if approximate < 1e-20 => Some(if approximate == 0.0 {
            Decimal::ZERO
        } else {
            Decimal::new(1, Decimal::MAX_SCALE)
        }),
        // Legal for a float but not for the decimal's reader, as in `1.` or a very long mantissa with an exponent.
        None => Decimal::from_f64_retain(approximate),
    }
}

/// Seconds to whole milliseconds, rounded into the range that is asked for.
fn latency_ms(name: &str, value: &str, rounding: RoundingStrategy) -> Result<i64, Fault> {
    number(value)
        .map(|seconds| (seconds * Decimal::ONE_THOUSAND).round_dp_with_strategy(0, rounding))
        .and_then(|ms| i64::try_from(ms).ok())
        .ok_or_else(|| {
            invalid_parameter(
                name,
                value,
                &format!("seconds, a number from 0 to {FILTER_NUMBER_MAX}"),
            )
        })
}

fn cost(name: &str, value: &str, rounding: RoundingStrategy) -> Result<Decimal, Fault> {
    number(value)
        .map(|dollars| dollars.round_dp_with_strategy(COST_SCALE, rounding))
        .ok_or_else(|| {
            invalid_parameter(
                name,
                value,
                &format!("dollars, a number from 0 to {FILTER_NUMBER_MAX}"),
            )
        })
}

/// Which end of a day a bare date means.
#[derive(Clone, Copy)]
enum Edge {
    First,
    Last,
}

fn instant(name: &str, value: &str, edge: Edge) -> Result<UnixMs, Fault> {
    instant_ms(value)
        .or_else(|| date_ms(value, edge))
        .ok_or_else(|| invalid_parameter(name, value, INSTANT))
}

/// Reads a time of a query string: every form of [`parse_text`], or integer milliseconds. A `+` of an offset that
/// was not percent-encoded arrives as a blank and is understood.
pub fn instant_ms(value: &str) -> Option<UnixMs> {
    if let Some(time_ms) = parse_text(value) {
        return Some(time_ms);
    }
    if let Ok(time_ms) = value.parse() {
        return Some(time_ms);
    }
    let (time, offset) = value.rsplit_once(' ')?;
    parse_text(&format!("{time}+{offset}"))
}

fn date_ms(value: &str, edge: Edge) -> Option<UnixMs> {
    let date = NaiveDate::parse_from_str(value, "%Y-%m-%d").ok()?;
    let midnight = |date: NaiveDate| Some(date.and_hms_opt(0, 0, 0)?.and_utc().timestamp_millis());
    match edge {
        Edge::First => midnight(date),
        Edge::Last => Some(midnight(date.checked_add_days(Days::new(1))?)? - 1),
    }
}

/// Adds the tags of one parameter: separated by commas, except in the `[]` forms, where a comma belongs to the tag.
fn add_tags(tags: &mut BTreeSet<String>, name: &str, value: &str) -> Result<(), Fault> {
    let most = text_length(name);
    let separator = |letter: char| letter == ',' && !name.ends_with("[]");
    let given: Vec<&str> = value
        .split(separator)
        .map(str::trim)
        .filter(|tag| !tag.is_empty())
        .collect();
    tags.extend(
        given
            .iter()
            .filter(|tag| tag.chars().count() <= most)
            .take(FILTER_TAGS + 1)
            .map(|tag| (*tag).to_owned()),
    );
    if given.is_empty()
        || given.iter().any(|tag| tag.chars().count() > most)
        || tags.len() > FILTER_TAGS
    {
        let allowed = format!(
            "1 to {FILTER_TAGS} tags of 1 to {most} characters, repeated or separated by commas"
        );
        return Err(invalid_parameter(name, value, &allowed));
    }
    Ok(())
}
