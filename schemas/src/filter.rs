//! What can be asked of the run list: filters, order and paging, read from the pairs of a query string.
//!
//! Reading is strict: a parameter nobody knows, a value that cannot be meant, a bound above its counterpart and a
//! single-valued parameter given twice are each a 400 that names parameter, value and what is allowed. Nothing here
//! builds SQL; a [`RunFilter`] is data, turned into fixed SQL with typed parameters by the store.

use rust_decimal::Decimal;
use serde_json::json;
use xxhash_rust::xxh3::Xxh3;

use crate::fault::Fault;
use crate::fold::Status;
use crate::limits::{ID_BYTES, NAME_BYTES};

mod parse;

pub use parse::instant_ms;
pub(crate) use parse::unknown_parameters;

/// Runs on a page when the caller does not say.
pub const LIMIT_DEFAULT: u32 = 50;
/// Runs on a page at most: API.md; keeps an answer in the low megabytes.
pub const LIMIT_MAX: u32 = 1000;
/// Tags in one filter; more is no question a person asks, and each costs a comparison per row.
pub const FILTER_TAGS: usize = 64;
/// Metadata keys in one filter; each reads the whole metadata column.
pub const FILTER_METADATA_KEYS: usize = 16;
/// Characters of the text searched for.
pub const FILTER_TEXT_CHARS: usize = 512;
/// Characters of a cursor: its longest content is a project, an app and a run id.
pub const CURSOR_CHARS: usize = 1024;
/// The largest latency (seconds) and cost (dollars) a filter takes: far above any real one, and exact in every type used.
pub const FILTER_NUMBER_MAX: u64 = 1_000_000_000;
/// A run that is still `started` this long after its start is stale, milliseconds: API.md.
pub const STALE_AFTER_MS: i64 = 5 * 60 * 1000;

/// Which feedback a run must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FeedbackFilter {
    /// Rated positive.
    Positive,
    /// Rated negative.
    Negative,
    /// Rated at all.
    Any,
    /// Not rated.
    None,
}

impl FeedbackFilter {
    fn as_str(self) -> &'static str {
        match self {
            Self::Positive => "positive",
            Self::Negative => "negative",
            Self::Any => "any",
            Self::None => "none",
        }
    }
}

/// The order of the list. Ties are broken by start, project, app and run id, so that every order is total.
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
}

impl Sort {
    /// Every order, with its name on the API.
    pub const ALL: [(Sort, &'static str); 5] = [
        (Sort::StartedAtDesc, "-started_at"),
        (Sort::StartedAtAsc, "started_at"),
        (Sort::LatencyDesc, "-latency_s"),
        (Sort::TotalCostDesc, "-total_cost"),
        (Sort::TotalTokensDesc, "-total_tokens"),
    ];

    /// The number of this order in a cursor.
    pub(crate) fn code(self) -> u8 {
        match self {
            Sort::StartedAtDesc => 0,
            Sort::StartedAtAsc => 1,
            Sort::LatencyDesc => 2,
            Sort::TotalCostDesc => 3,
            Sort::TotalTokensDesc => 4,
        }
    }
}

/// Which runs are wanted. Every condition that is given must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunFilter {
    /// Only runs of this app.
    pub app_id: Option<String>,
    /// Only runs of this status.
    pub status: Option<Status>,
    /// Only runs of this model.
    pub model: Option<String>,
    /// Only runs of this agent.
    pub agent: Option<String>,
    /// Only runs of this user.
    pub user_email: Option<String>,
    /// Only runs of this type.
    pub kind: Option<String>,
    /// Only runs of this name.
    pub name: Option<String>,
    /// Only runs of this thread.
    pub thread_id: Option<String>,
    /// Only children of this run.
    pub parent_run_id: Option<String>,
    /// Only runs without (`true`) or with (`false`) a parent.
    pub root: Option<bool>,
    /// Only runs that are (not) saved.
    pub saved: Option<bool>,
    /// Only runs that are (not) stale.
    pub stale: Option<bool>,
    /// Only runs with this feedback.
    pub feedback: Option<FeedbackFilter>,
    /// Only finished runs of at least this length, milliseconds.
    pub min_latency_ms: Option<i64>,
    /// Only finished runs of at most this length, milliseconds.
    pub max_latency_ms: Option<i64>,
    /// Only runs whose total cost is at least this, in dollars.
    pub min_cost: Option<Decimal>,
    /// Only runs whose total cost is at most this, in dollars.
    pub max_cost: Option<Decimal>,
    /// Only runs with one of these tags. Sorted, without repeats.
    pub tags: Vec<String>,
    /// Only runs with all of these tags. Sorted, without repeats.
    pub tags_all: Vec<String>,
    /// Only runs whose metadata has these values. Sorted by key.
    pub metadata: Vec<(String, String)>,
    /// Only runs with this text in the name, the error, or the previews of input and output, whatever its case.
    pub text: Option<String>,
    /// Only runs that started at or after this, Unix milliseconds.
    pub from_ms: Option<i64>,
    /// Only runs that started at or before this, Unix milliseconds.
    pub to_ms: Option<i64>,
}

/// A request for one page of the run list.
#[derive(Clone, Debug, PartialEq)]
pub struct RunQuery {
    /// Which runs.
    pub filter: RunFilter,
    /// In which order.
    pub sort: Sort,
    /// How many on the page.
    pub limit: u32,
    /// Where the page before ended, as that page's answer said. Not decoded yet: see [`crate::cursor`].
    pub cursor: Option<String>,
    /// Whether to count all matching runs.
    pub count: bool,
    /// One of the caller's projects; without it, all that the credential reaches.
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
    /// Reads the decoded pairs of a query string.
    ///
    /// # Errors
    /// A 400 that names what is wrong, where, and what is allowed.
    pub fn from_pairs<'a, I>(pairs: I) -> Result<Self, Fault>
    where
        I: IntoIterator<Item = (&'a str, &'a str)>,
    {
        parse::run_query(pairs)
    }

    /// What a cursor of this request is bound to: the filter, the order and the chosen project, but neither the
    /// page's size nor the wish to count.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = Xxh3::new();
        let mut part = |name: &str, value: &str| {
            for text in [name, value] {
                hash.update(&(text.len() as u64).to_le_bytes());
                hash.update(text.as_bytes());
            }
        };
        let filter = &self.filter;
        part("sort", &self.sort.code().to_string());
        for (name, value) in [
            ("project_id", &self.project_id),
            ("app_id", &filter.app_id),
            ("model", &filter.model),
            ("agent", &filter.agent),
            ("user_email", &filter.user_email),
            ("type", &filter.kind),
            ("name", &filter.name),
            ("thread_id", &filter.thread_id),
            ("parent_run_id", &filter.parent_run_id),
            ("q", &filter.text),
        ] {
            if let Some(value) = value {
                part(name, value);
            }
        }
        for (name, value) in [
            ("root", filter.root),
            ("saved", filter.saved),
            ("stale", filter.stale),
        ] {
            if let Some(value) = value {
                part(name, if value { "true" } else { "false" });
            }
        }
        for (name, value) in [
            ("min_latency", filter.min_latency_ms),
            ("max_latency", filter.max_latency_ms),
            ("from", filter.from_ms),
            ("to", filter.to_ms),
        ] {
            if let Some(value) = value {
                part(name, &value.to_string());
            }
        }
        for (name, value) in [("min_cost", filter.min_cost), ("max_cost", filter.max_cost)] {
            if let Some(value) = value {
                part(name, &value.normalize().to_string());
            }
        }
        if let Some(status) = filter.status {
            part("status", status.as_str());
        }
        if let Some(feedback) = filter.feedback {
            part("feedback", feedback.as_str());
        }
        filter.tags.iter().for_each(|tag| part("tags", tag));
        filter.tags_all.iter().for_each(|tag| part("tags_all", tag));
        filter.metadata.iter().for_each(|(key, value)| {
            part("metadata", key);
            part("", value);
        });
        hash.digest()
    }
}

/// A 400 for one parameter: names it, its value and what is allowed.
pub fn invalid_parameter(parameter: &str, value: &str, allowed: &str) -> Fault {
    let shown: String = value.chars().take(100).collect();
    Fault::bad_request(
        "invalid_parameter",
        format!("`{parameter}` cannot be `{shown}`; allowed: {allowed}"),
    )
    .with_details(json!({"parameter": parameter, "value": shown, "allowed": allowed}))
}

/// Characters a text parameter may have: as many as what it is compared with may have bytes.
fn text_length(parameter: &str) -> usize {
    match parameter {
        "app_id" | "thread_id" | "parent_run_id" | "project_id" => ID_BYTES,
        "q" => FILTER_TEXT_CHARS,
        "cursor" => CURSOR_CHARS,
        _ => NAME_BYTES,
    }
}

#[cfg(test)]
mod tests;
