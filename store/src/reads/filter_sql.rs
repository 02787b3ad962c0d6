//! Conditions of reads: fixed SQL text, and values as typed parameters.
//!
//! No external text ever becomes SQL: values only decide which of the fixed fragments are present.

use schemas::filter::Sort;
use schemas::money::Dollars;
use schemas::timestamp::UnixMs;

use crate::client::query::BoundedQuery;

mod run_filter;

pub(crate) use run_filter::{conditions, is_start, start_bounds};

/// The range of a `DateTime64(3)`: 1900 to 2299.
const TIME_RANGE: std::ops::RangeInclusive<UnixMs> = -2_208_988_800_000..=10_413_791_999_999;

/// The projects that a read reaches (T1). Comes from the credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Projects {
    All,
    Only(Vec<String>),
}

impl Projects {
    pub fn has(&self, project: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(projects) => projects.iter().any(|known| known == project),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Value {
    Text(String),
    Texts(Vec<String>),
    Number(i64),
    Keys(Vec<u64>),
}

/// Conditions that must all hold, with their values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Conditions {
    sql: String,
    values: Vec<(String, Value)>,
}

impl Conditions {
    /// Adds a condition without values.
    pub(crate) fn and(&mut self, sql: &str) {
        if !self.sql.is_empty() {
            self.sql.push_str(" AND ");
        }
        self.sql.push_str(sql);
    }

    /// Adds a condition and the value of its one parameter.
    pub(crate) fn and_with(&mut self, sql: &str, name: &str, value: Value) {
        self.and(sql);
        self.give(name, value);
    }

    /// Adds the value of a parameter.
    pub(crate) fn give(&mut self, name: &str, value: Value) {
        self.values.push((name.to_owned(), value));
    }

    /// The conjunction of both.
    pub(crate) fn with(mut self, other: &Conditions) -> Self {
        if !other.sql.is_empty() {
            self.and(&other.sql);
        }
        self.values.extend(other.values.iter().cloned());
        self
    }

    /// The SQL; `1` without conditions.
    pub(crate) fn sql(&self) -> &str {
        if self.sql.is_empty() { "1" } else { &self.sql }
    }

    /// Sets the parameters of a query.
    pub(crate) fn fill(&self, query: BoundedQuery) -> BoundedQuery {
        self.values
            .iter()
            .fold(query, |query, (name, value)| match value {
                Value::Text(text) => query.param(name, text),
                Value::Texts(texts) => query.param(name, texts),
                Value::Number(number) => query.param(name, number),
                Value::Keys(keys) => query.param(name, keys),
            })
    }
}

/// The projects that may be read. First in every read of runs (T1).
pub(crate) fn scope(projects: &Projects) -> Conditions {
    let mut conditions = Conditions::default();
    match projects {
        Projects::All => {}
        Projects::Only(projects) => match &projects[..] {
            [project] => {
                conditions.and_with(
                    "project_id = {project:String}",
                    "project",
                    Value::Text(project.clone()),
                );
            }
            _ => {
                let all = Value::Texts(projects.clone());
                conditions.and_with("project_id IN {projects:Array(String)}", "projects", all);
            }
        },
    }
    conditions
}

/// A time as a parameter, clamped to the column's range.
pub(crate) fn time(time_ms: UnixMs) -> Value {
    Value::Number(time_ms.clamp(*TIME_RANGE.start(), *TIME_RANGE.end()))
}

/// The sort column of a list by value. As an integer it is [`schemas::cursor::Cursor::value`].
pub(crate) struct SortColumn {
    /// The expression that the table is ordered and bounded by.
    pub(crate) sql: &'static str,
    /// Its SQL type, for parameters.
    pub(crate) sql_type: &'static str,
    /// The same as an integer.
    pub(crate) as_integer: &'static str,
    /// A condition that an index can use and that everything from `bound` on satisfies.
    pub(crate) coarse: &'static str,
}

impl SortColumn {
    /// `None` for orders by time.
    pub(crate) fn of(sort: Sort) -> Option<Self> {
        match sort {
            Sort::StartedAtDesc | Sort::StartedAtAsc => None,
            // Lengths above 24 days count as equal: 4 bytes to read per run instead of 9.
            Sort::LatencyDesc => Some(Self {
                sql: "latency_key",
                sql_type: "Int32",
                as_integer: "toInt128(latency_key)",
                coarse: "1",
            }),
            Sort::TotalCostDesc => Some(Self {
                sql: "total_cost",
                sql_type: "Decimal(38, 18)",
                as_integer: "reinterpretAsInt128(total_cost)",
                coarse: "cost_key >= toFloat32(bound)",
            }),
            Sort::TotalTokensDesc => Some(Self {
                sql: "ifNull(toInt64(total_tokens), -1)",
                sql_type: "Int64",
                as_integer: "toInt128(ifNull(toInt64(total_tokens), -1))",
                coarse: "1",
            }),
            Sort::TimeToFirstTokenDesc => Some(Self {
                sql: "ifNull(toInt64(ttft_ms), -1)",
                sql_type: "Int64",
                as_integer: "toInt128(ifNull(toInt64(ttft_ms), -1))",
                coarse: "1",
            }),
        }
    }

    /// The parameter that a value is compared with.
    pub(crate) fn parameter(&self, value: i128) -> Value {
        Value::Text(if self.sql == "total_cost" {
            Dollars(value).to_string()
        } else {
            value.to_string()
        })
    }
}
