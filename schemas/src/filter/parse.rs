//! Parses the pairs of a query string to a [`RunQuery`].

use std::collections::BTreeSet;

use serde_json::json;

use super::declared::{Condition, RunFilter};
use super::kinds::{Value, flag, text};
use super::{CURSOR_CHARS, LIMIT_MAX, RunQuery, Sort, invalid_parameter};
use crate::api_error::{ApiError, ErrorCode};
use crate::limits::ID_BYTES;
use crate::page;

pub(super) fn run_query<'a, I>(pairs: I) -> Result<RunQuery, ApiError>
where
    I: IntoIterator<Item = (&'a str, &'a str)>,
{
    let mut query = RunQuery::default();
    let mut seen = BTreeSet::new();
    let mut unknown = BTreeSet::new();
    for (name, value) in pairs {
        if !RunFilter::is_repeated(name) && !seen.insert(name) {
            return Err(invalid_parameter(name, value, "given once"));
        }
        match query.filter.read(name, value) {
            Some(read) => read?,
            None if !set(&mut query, name, value)? => {
                unknown.insert(name);
            }
            None => {}
        }
    }
    if !unknown.is_empty() {
        return Err(unknown_parameters(&unknown));
    }
    ordered(&query.filter)?;
    Ok(query)
}

/// Sets a parameter other than a filter. `false` for an unknown one.
fn set(query: &mut RunQuery, name: &str, value: &str) -> Result<bool, ApiError> {
    match name {
        "project_id" => query.project_id = Some(text(name, value, ID_BYTES)?),
        "cursor" => query.cursor = Some(text(name, value, CURSOR_CHARS)?),
        "count" => query.count = flag(name, value)?,
        "sort" => query.sort = sort(name, value)?,
        "limit" => query.limit = page::limit(value, LIMIT_MAX)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// A 400 that names unknown parameters.
pub(crate) fn unknown_parameters(names: &BTreeSet<&str>) -> ApiError {
    let shown: Vec<String> = names
        .iter()
        .take(20)
        .map(|name| name.chars().take(100).collect())
        .collect();
    ApiError::new(
        ErrorCode::UnknownParameter,
        format!("unknown query parameter: `{}`", shown.join("`, `")),
    )
    .with_details(json!({ "parameters": shown }))
}

/// A lower bound must not be above the upper bound of the same measure.
fn ordered(filter: &RunFilter) -> Result<(), ApiError> {
    for (low, least) in filter.given() {
        let Condition::AtLeast(measure) = low.condition else {
            continue;
        };
        let mut others = filter.given();
        let upper = others.find(|(other, _)| other.condition == Condition::AtMost(measure));
        if let Some((high, most)) = upper
            && is_above(least, most)
        {
            return Err(ApiError::new(
                ErrorCode::InvalidParameter,
                format!("`{}` must not be above `{}`", low.name, high.name),
            )
            .with_details(json!({"parameter": low.name, "other": high.name})));
        }
    }
    Ok(())
}

fn is_above(least: Value<'_>, most: Value<'_>) -> bool {
    match (least, most) {
        (Value::Number(least), Value::Number(most)) => least > most,
        (Value::Decimal(least), Value::Decimal(most)) => least > most,
        _ => false,
    }
}

fn sort(name: &str, value: &str) -> Result<Sort, ApiError> {
    match Sort::ALL.iter().find(|(_, known)| *known == value) {
        Some((sort, _)) => Ok(*sort),
        None => {
            let names: Vec<&str> = Sort::ALL.iter().map(|(_, known)| *known).collect();
            Err(invalid_parameter(name, value, &names.join(", ")))
        }
    }
}
