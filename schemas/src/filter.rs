//! Queries of the run list: filters, order and paging, parsed from the pairs of a query string.
//!
//! Filters are declared in one table, [`FILTERS`]. Parsing is strict: an unknown parameter, a value out of bounds, a
//! lower bound above the upper one and a single-valued parameter given twice are each a 400 that names parameter, value
//! and rule. Nothing here builds SQL; a [`RunFilter`] is data, which the store turns into fixed SQL with typed
//! parameters.

use serde_json::json;
use xxhash_rust::xxh3::Xxh3;

use crate::api_error::{ApiError, ErrorCode};

mod declared;
mod kinds;
mod parse;

pub use declared::{Condition, Declaration, FILTERS, Measure, RunFilter};
pub use kinds::{Shape, Value, Word, instant_ms};
pub(crate) use parse::unknown_parameters;

/// Default number of runs on a page.
pub const LIMIT_DEFAULT: u32 = 50;
/// Maximum number of runs on a page, by API.md; keeps a response in the low megabytes.
pub const LIMIT_MAX: u32 = 1000;
/// Tags in one filter; users do not ask for more, and each costs a comparison per row.
pub const FILTER_TAGS: usize = 64;
/// Metadata keys in one filter; each reads the whole metadata column.
pub const FILTER_METADATA_KEYS: usize = 16;
/// Characters of the search text.
pub const FILTER_TEXT_CHARS: usize = 512;
/// Characters of a cursor: its longest content is a project, an app and a run id.
pub const CURSOR_CHARS: usize = 1024;
/// The largest latency (seconds) and cost (dollars) of a filter: far above any real one, and exact in every type used.
pub const FILTER_NUMBER_MAX: u64 = 1_000_000_000;
/// The largest count of a filter: far above any real one.
pub const FILTER_COUNT_MAX: i64 = 1_000_000_000_000;
/// A run that is still `started` this long after its start is stale, milliseconds: API.md.
pub const STALE_AFTER_MS: i64 = 5 * 60 * 1000;

/// The feedback that a run must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FeedbackFilter {
    Positive,
    Negative,
    /// Rated at all.
    Any,
    /// Not rated.
    None,
}

/// The order of the list. Ties are broken by start, project, app and run id, so every order is total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sort {
    /// Newest first.
    #[default]
    StartedAtDesc,
    /// Oldest first.
    StartedAtAsc,
    /// Longest first; unfinished runs last.
    LatencyDesc,
    /// Dearest first, descendants included.
    TotalCostDesc,
    /// Most tokens first; runs without tokens last.
    TotalTokensDesc,
    /// Latest first token first; runs without one last.
    TimeToFirstTokenDesc,
}

impl Sort {
    /// Every order, with its name on the API.
    pub const ALL: [(Sort, &'static str); 6] = [
        (Sort::StartedAtDesc, "-started_at"),
        (Sort::StartedAtAsc, "started_at"),
        (Sort::LatencyDesc, "-latency_s"),
        (Sort::TotalCostDesc, "-total_cost"),
        (Sort::TotalTokensDesc, "-total_tokens"),
        (Sort::TimeToFirstTokenDesc, "-ttft_ms"),
    ];

    /// The number of this order in a cursor.
    pub(crate) fn code(self) -> u8 {
        match self {
            Sort::StartedAtDesc => 0,
            Sort::StartedAtAsc => 1,
            Sort::LatencyDesc => 2,
            Sort::TotalCostDesc => 3,
            Sort::TotalTokensDesc => 4,
            Sort::TimeToFirstTokenDesc => 5,
        }
    }
}

/// A request for one page of the run list.
#[derive(Clone, Debug, PartialEq)]
pub struct RunQuery {
    pub filter: RunFilter,
    pub sort: Sort,
    /// Maximum number of runs on the page.
    pub limit: u32,
    /// The previous page's cursor, not yet decoded: see [`crate::cursor`].
    pub cursor: Option<String>,
    /// Whether to count all matching runs.
    pub count: bool,
    /// One of the client's projects; `None` for all that the credential reaches.
    pub project_id: Option<String>,
}

impl Default for RunQuery {
    fn default() -> Self {
        Self {
            filter: RunFilter::default(),
            sort: Sort::default(),
            limit: LIMIT_DEFAULT,
            cursor: None,
            count: false,
            project_id: None,
        }
    }
}

impl RunQuery {
    /// Parses the decoded pairs of a query string.
    ///
    /// # Errors
    /// A 400 that names the parameter, its value and the rule.
    pub fn from_pairs<'a, I>(pairs: I) -> Result<Self, ApiError>
    where
        I: IntoIterator<Item = (&'a str, &'a str)>,
    {
        parse::run_query(pairs)
    }

    /// The fingerprint that binds a cursor to this request: the filter, the order and the project, but neither the size
    /// of the page nor `count`.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = Xxh3::new();
        let mut part = |name: &str, value: &str| {
            for text in [name, value] {
                hash.update(&(text.len() as u64).to_le_bytes());
                hash.update(text.as_bytes());
            }
        };
        part("sort", &self.sort.code().to_string());
        if let Some(project_id) = &self.project_id {
            part("project_id", project_id);
        }
        for (declared, value) in self.filter.given() {
            let name = declared.name;
            match value {
                Value::Text(text) => part(name, text),
                Value::Word(word) => part(name, word),
                Value::Flag(flag) => part(name, if flag { "true" } else { "false" }),
                Value::Number(number) => part(name, &number.to_string()),
                Value::Decimal(number) => part(name, &number.normalize().to_string()),
                Value::Texts(texts) => texts.iter().for_each(|text| part(name, text)),
                Value::Entries(entries) => entries.iter().for_each(|(key, value)| {
                    part(name, key);
                    part("", value);
                }),
            }
        }
        hash.digest()
    }
}

/// A 400 for one parameter: names it, its value and the rule.
pub fn invalid_parameter(parameter: &str, value: &str, allowed: &str) -> ApiError {
    let shown: String = value.chars().take(100).collect();
    ApiError::new(
        ErrorCode::InvalidParameter,
        format!("`{parameter}` cannot be `{shown}`; allowed: {allowed}"),
    )
    .with_details(json!({"parameter": parameter, "value": shown, "allowed": allowed}))
}

#[cfg(test)]
mod tests;
