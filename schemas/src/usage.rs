//! What runs used and how they went, summed: the shapes of analytics and facets, and what can be asked of them.
//!
//! Costs are own costs: summed over any set of runs nothing is counted twice, whatever their tree.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use crate::money::Dollars;
use crate::run::{Instant, Seconds};

mod question;

pub use question::{GroupBy, Question, unpaged};

/// Groups listed in one response; the rest is summed as `other`.
pub const GROUPS_MAX: usize = 100;
/// Groups listed in a response with a series: each has figures per bucket.
pub const GROUPS_IN_SERIES_MAX: usize = 20;
/// Buckets of a series: 41 days by hour, 2.7 years by day, more than a chart has pixels for.
pub const BUCKETS_MAX: i64 = 1000;
/// Default range: days before `to`.
pub const DEFAULT_DAYS: i64 = 30;
/// Values of one facet.
pub const FACET_VALUES_MAX: usize = 100;

/// The length of a bucket of a series. Buckets begin at whole hours or days, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(rename_all = "snake_case")]
pub enum Interval {
    /// An hour.
    Hour,
    /// A day.
    Day,
}

impl Interval {
    pub fn length_ms(self) -> i64 {
        match self {
            Self::Hour => 3_600_000,
            Self::Day => 86_400_000,
        }
    }
}

/// Tokens and cost of runs, each run's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Spend {
    /// Runs.
    pub runs: u64,
    /// Model calls among them.
    pub calls: u64,
    /// Tokens of prompts.
    #[schema(value_type = u64)]
    pub prompt_tokens: u128,
    /// Tokens of completions.
    #[schema(value_type = u64)]
    pub completion_tokens: u128,
    /// Tokens in all.
    #[schema(value_type = u64)]
    pub total_tokens: u128,
    /// Own cost in USD.
    #[schema(value_type = f64)]
    pub cost: Dollars,
}

/// How runs went and what they used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct Activity {
    /// Tokens and cost.
    #[serde(flatten)]
    pub spend: Spend,
    /// Runs that ended with an error.
    pub errors: u64,
    /// Errors by runs, from 0 to 1.
    pub error_rate: f64,
    /// Half of the finished runs were not longer: the value in the middle of all lengths in order. `null` where none
    /// is finished. Lengths above 24 days count as equal.
    #[schema(value_type = Option<f64>)]
    pub latency_p50_s: Option<Seconds>,
    /// The same for 95 of a hundred.
    #[schema(value_type = Option<f64>)]
    pub latency_p95_s: Option<Seconds>,
    /// Half of the model calls whose first token is known had it no later, in milliseconds. `null` where none is known.
    pub ttft_p50_ms: Option<u64>,
    /// The same for 95 of a hundred.
    pub ttft_p95_ms: Option<u64>,
    /// Completion tokens of finished model calls by the seconds from their first tokens, where these are known, else from
    /// their starts, to their ends. `null` where there are none.
    pub tokens_per_second: Option<f64>,
}

/// Runs that failed for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Failures {
    /// How many.
    pub count: u64,
    /// When the newest of them ended, or started where its end is not known.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_seen: Option<Instant>,
    /// The newest of them.
    pub example: Option<Example>,
}

/// Names one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Example {
    /// The project, only where the caller reaches more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub project_id: Option<String>,
    /// The app.
    pub app_id: String,
    /// The run.
    pub run_id: String,
}

/// The figures of one group.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Group<F> {
    /// The value that its runs share; `null` for runs without one.
    pub key: Option<String>,
    /// Its figures.
    #[serde(flatten)]
    pub figures: F,
}

/// The figures of runs in no group of their own. Only for the OpenAPI document, where a shape without a name of its
/// own cannot be `null`.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Rest<F> {
    /// The figures.
    #[serde(flatten)]
    pub figures: F,
}

/// The figures of one stretch of time.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Bucket<F> {
    /// Where it begins.
    #[schema(value_type = String, format = DateTime)]
    pub start: Instant,
    /// All of its runs.
    pub totals: F,
    /// The groups that have runs in it, in the order of the whole answer.
    pub groups: Vec<Group<F>>,
    /// The runs of it in no group named here; `null` where there are none.
    #[schema(value_type = Option<Rest<F>>)]
    pub other: Option<F>,
}

/// Figures of runs: all of them, by group and, where asked for, by time.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Report<F> {
    /// The first start that was looked at.
    #[schema(value_type = String, format = DateTime)]
    pub from: Instant,
    /// The last one; `null` where there is no bound.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub to: Option<Instant>,
    /// The length of a bucket of the series.
    pub interval: Option<Interval>,
    /// What groups are made by.
    pub group_by: GroupBy,
    /// All runs.
    pub totals: F,
    /// The largest groups, largest first: by cost, errors by count.
    pub groups: Vec<Group<F>>,
    /// The runs in no group named here; `null` where there are none.
    #[schema(value_type = Option<Rest<F>>)]
    pub other: Option<F>,
    /// Buckets that have runs, oldest first. Only with `interval`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub series: Option<Vec<Bucket<F>>>,
}

/// The values of a field, most frequent first. Runs without a value are in none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Facet {
    /// The values.
    pub values: Vec<FacetValue>,
    /// Whether there are more.
    pub truncated: bool,
}

/// A value and how many runs have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct FacetValue {
    /// The value.
    pub value: String,
    /// Runs that have it.
    pub count: u64,
}

/// What can be chosen in filters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Facets {
    /// The first start that was looked at.
    #[schema(value_type = String, format = DateTime)]
    pub from: Instant,
    /// The last one; `null` where there is no bound.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub to: Option<Instant>,
    /// By name of the filter: `app_id`, `status`, `model`, `agent`, `type`, `name`, `tags`, `user_email`.
    pub facets: BTreeMap<String, Facet>,
}
