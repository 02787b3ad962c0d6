//! From a [`RunFilter`] to conditions on `runs`: fixed SQL text, and values that travel as typed parameters.
//!
//! No text from outside ever becomes SQL: what varies with a value is only which of the fixed fragments are there.

use schemas::filter::{FeedbackFilter, RunFilter, STALE_AFTER_MS, Sort};
use schemas::fold::Status;
use schemas::run::Dollars;
use schemas::timestamp::UnixMs;

use crate::reads::BoundedQuery;

/// What `latency_key` holds for a run without a latency.
const NO_LATENCY: i64 = i32::MIN as i64;
/// The first and last moment a `DateTime64(3)` can be compared with: 1900 and 2299.
const TIME_RANGE: std::ops::RangeInclusive<UnixMs> = -2_208_988_800_000..=10_413_791_999_999;

/// The projects a read reaches (T1). Comes from the credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Projects {
    /// Every project.
    All,
    /// These and no other.
    Only(Vec<String>),
}

impl Projects {
    /// Whether `project` is one of them.
    pub fn has(&self, project: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(projects) => projects.iter().any(|known| known == project),
        }
    }
}

/// The value of one parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Texts(Vec<String>),
    Number(i64),
    Keys(Vec<u64>),
}

/// Conditions that must all hold, with the values they name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

    /// All conditions of both.
    pub(crate) fn with(mut self, other: &Conditions) -> Self {
        if !other.sql.is_empty() {
            self.and(&other.sql);
        }
        self.values.extend(other.values.iter().cloned());
        self
    }

    /// The SQL; `1` when there is no condition.
    pub(crate) fn sql(&self) -> &str {
        if self.sql.is_empty() { "1" } else { &self.sql }
    }

    /// Hands the values to a query.
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

/// Everything of the filter but the bounds on the start, which the reader folds into its windows.
pub(crate) fn conditions(filter: &RunFilter, now_ms: UnixMs) -> Conditions {
    let mut all = Conditions::default();
    texts(&mut all, filter);
    flags(&mut all, filter, now_ms);
    bounds(&mut all, filter);
    lists(&mut all, filter);
    all
}

/// The bounds on the start.
pub(crate) fn start_bounds(filter: &RunFilter) -> Conditions {
    let mut all = Conditions::default();
    if let Some(from_ms) = filter.from_ms {
        all.and_with(
            "started_at >= fromUnixTimestamp64Milli({from:Int64}, 'UTC')",
            "from",
            time(from_ms),
        );
    }
    if let Some(to_ms) = filter.to_ms {
        all.and_with(
            "started_at <= fromUnixTimestamp64Milli({to:Int64}, 'UTC')",
            "to",
            time(to_ms),
        );
    }
    all
}

/// A time as a parameter, inside of what the column can be compared with.
pub(crate) fn time(time_ms: UnixMs) -> Value {
    Value::Number(time_ms.clamp(*TIME_RANGE.start(), *TIME_RANGE.end()))
}

/// What a list by value is ordered by. As an integer it is [`schemas::cursor::Cursor::value`].
pub(crate) struct SortColumn {
    /// The expression the table is ordered and bounded by.
    pub(crate) sql: &'static str,
    /// Its type, for parameters.
    pub(crate) sql_type: &'static str,
    /// The same as an integer.
    pub(crate) as_integer: &'static str,
    /// A condition that an index can use and that everything from `bound` on fulfils.
    pub(crate) coarse: &'static str,
}

impl SortColumn {
    /// The column of an order; `None` for orders by time.
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
        }
    }

    /// A value as the parameter it is compared with.
    pub(crate) fn parameter(&self, value: i128) -> Value {
        Value::Text(if self.sql == "total_cost" {
            Dollars(value).to_string()
        } else {
            value.to_string()
        })
    }
}

fn texts(all: &mut Conditions, filter: &RunFilter) {
    for (sql, name, value) in [
        ("app_id = {app:String}", "app", &filter.app_id),
        ("model = {model:String}", "model", &filter.model),
        ("agent = {agent:String}", "agent", &filter.agent),
        ("user_email = {user:String}", "user", &filter.user_email),
        ("type = {type:String}", "type", &filter.kind),
        ("name = {name:String}", "name", &filter.name),
        ("thread_id = {thread:String}", "thread", &filter.thread_id),
        (
            "parent_run_id = {parent:String}",
            "parent",
            &filter.parent_run_id,
        ),
    ] {
        if let Some(value) = value {
            all.and_with(sql, name, Value::Text(value.clone()));
        }
    }
}

fn flags(all: &mut Conditions, filter: &RunFilter, now_ms: UnixMs) {
    match filter.status {
        None => {}
        Some(Status::Started) => all.and("status = 'started'"),
        Some(Status::Success) => all.and("status = 'success'"),
        Some(Status::Error) => all.and("status = 'error'"),
    }
    match filter.root {
        None => {}
        Some(true) => all.and("parent_run_id = ''"),
        Some(false) => all.and("parent_run_id != ''"),
    }
    match filter.saved {
        None => {}
        Some(true) => all.and("saved = 1"),
        Some(false) => all.and("saved = 0"),
    }
    match filter.feedback {
        None => {}
        Some(FeedbackFilter::Positive) => all.and("feedback_rating = 'positive'"),
        Some(FeedbackFilter::Negative) => all.and("feedback_rating = 'negative'"),
        Some(FeedbackFilter::Any) => all.and("feedback_rating != ''"),
        Some(FeedbackFilter::None) => all.and("feedback_rating = ''"),
    }
    if let Some(stale) = filter.stale {
        let before = time(now_ms.saturating_sub(STALE_AFTER_MS));
        let sql = if stale {
            "status = 'started' AND started_at < fromUnixTimestamp64Milli({stale_before:Int64}, 'UTC')"
        } else {
            "(status != 'started' OR started_at >= fromUnixTimestamp64Milli({stale_before:Int64}, 'UTC'))"
        };
        all.and_with(sql, "stale_before", before);
    }
}

fn bounds(all: &mut Conditions, filter: &RunFilter) {
    let key = |ms: i64| Value::Number(ms.clamp(NO_LATENCY + 1, i64::from(i32::MAX)));
    if let Some(least) = filter.min_latency_ms {
        all.and_with(
            "latency_key >= {min_latency_key:Int32}",
            "min_latency_key",
            key(least),
        );
        if least > i64::from(i32::MAX) {
            all.and_with(
                "latency_ms >= {min_latency:Int64}",
                "min_latency",
                Value::Number(least),
            );
        }
    }
    if let Some(most) = filter.max_latency_ms {
        if filter.min_latency_ms.is_none() {
            all.and("latency_key > -2147483648");
        }
        all.and_with(
            "latency_key <= {max_latency_key:Int32}",
            "max_latency_key",
            key(most),
        );
        if most >= i64::from(i32::MAX) {
            all.and_with(
                "latency_ms <= {max_latency:Int64}",
                "max_latency",
                Value::Number(most),
            );
        }
    }
    // The narrow key first: rounding to a float keeps the order, so what it lets go the exact amount lets go too.
    if let Some(least) = filter.min_cost {
        all.and("cost_key >= toFloat32({min_cost:Decimal(38, 18)})");
        all.and_with(
            "total_cost >= {min_cost:Decimal(38, 18)}",
            "min_cost",
            Value::Text(least.to_string()),
        );
    }
    if let Some(most) = filter.max_cost {
        all.and("cost_key <= toFloat32({max_cost:Decimal(38, 18)})");
        all.and_with(
            "total_cost <= {max_cost:Decimal(38, 18)}",
            "max_cost",
            Value::Text(most.to_string()),
        );
    }
}

fn lists(all: &mut Conditions, filter: &RunFilter) {
    if !filter.tags.is_empty() {
        all.and_with(
            "hasAny(tags, {tags:Array(String)})",
            "tags",
            Value::Texts(filter.tags.clone()),
        );
    }
    if !filter.tags_all.is_empty() {
        all.and_with(
            "hasAll(tags, {tags_all:Array(String)})",
            "tags_all",
            Value::Texts(filter.tags_all.clone()),
        );
    }
    for (number, (key, value)) in filter.metadata.iter().enumerate() {
        let sql = format!("metadata[{{key{number}:String}}] = {{value{number}:String}}");
        all.and_with(&sql, &format!("key{number}"), Value::Text(key.clone()));
        all.give(&format!("value{number}"), Value::Text(value.clone()));
    }
    if let Some(text) = &filter.text {
        search(all, text);
    }
}

/// Where `q` looks, as the index `by_text` has it, word for word.
const SEARCHED: &str = "lowerUTF8(concat(name, '\\n', error_name, '\\n', error_message, '\\n', input_preview, '\\n', output_preview))";

/// A piece of text in one of the fields, both in small letters. The index only says where to look.
fn search(all: &mut Conditions, text: &str) {
    let mut pattern = String::with_capacity(text.len() + 2);
    pattern.push('%');
    for letter in text.chars() {
        if matches!(letter, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern.push('%');
    let sql = format!("{SEARCHED} LIKE lowerUTF8({{text:String}})");
    all.and_with(&sql, "text", Value::Text(pattern));
    if text.contains('\n') {
        // Fields are searched as one text with line breaks between them: a text with such a break could reach over two.
        let within = [
            "name",
            "error_name",
            "error_message",
            "input_preview",
            "output_preview",
        ]
        .map(|field| format!("lowerUTF8({field}) LIKE lowerUTF8({{text:String}})"));
        all.and(&format!("({})", within.join(" OR ")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::filter::RunQuery;

    fn sql_of(pairs: &[(&str, &str)]) -> Conditions {
        let query = RunQuery::from_pairs(pairs.iter().copied()).expect("a good query");
        conditions(&query.filter, 1_000_000_000).with(&start_bounds(&query.filter))
    }

    #[test]
    fn no_filter_is_no_condition() {
        assert_eq!(sql_of(&[]).sql(), "1");
    }

    #[test]
    fn no_text_from_outside_becomes_sql() {
        let hostile = "x' OR 1=1 --";
        let names = [
            "app_id",
            "model",
            "agent",
            "user_email",
            "type",
            "name",
            "thread_id",
            "parent_run_id",
            "q",
            "tags",
            "tags_all",
            "metadata.x' OR 1=1 --",
        ];
        let pairs: Vec<(&str, &str)> = names.iter().map(|name| (*name, hostile)).collect();
        let found = sql_of(&pairs);
        assert!(!found.sql().contains("1=1"), "{}", found.sql());
        let texts = found.values.iter().filter(|(_, value)| match value {
            // The text that is searched for stands between wildcards.
            Value::Text(text) => text.trim_matches('%') == hostile,
            Value::Texts(texts) => texts == &[hostile],
            _ => false,
        });
        assert_eq!(texts.count(), names.len() + 1);
    }

    #[test]
    fn every_parameter_that_is_named_has_a_value_and_none_has_two() {
        let found = sql_of(&[
            ("app_id", "a"),
            ("min_latency_s", "3000000"),
            ("max_latency_s", "4000000"),
            ("min_cost", "0.1"),
            ("max_cost", "2"),
            ("stale", "false"),
            ("tags", "a"),
            ("metadata.a", "1"),
            ("metadata.b", "2"),
            ("q", "text"),
            ("from", "0"),
            ("to", "1"),
        ]);
        let mut named: Vec<&str> = found
            .sql()
            .split('{')
            .skip(1)
            .filter_map(|rest| rest.split(':').next())
            .collect();
        named.sort_unstable();
        named.dedup();
        let mut given: Vec<&str> = found.values.iter().map(|(name, _)| name.as_str()).collect();
        given.sort_unstable();
        assert_eq!(named, given);
    }

    #[test]
    fn an_unfinished_run_is_outside_of_every_latency_filter() {
        assert!(
            sql_of(&[("min_latency_s", "0")])
                .sql()
                .contains("latency_key >= {min_latency_key:Int32}")
        );
        assert!(
            sql_of(&[("max_latency_s", "9")])
                .sql()
                .contains("latency_key > -2147483648")
        );
    }
}
