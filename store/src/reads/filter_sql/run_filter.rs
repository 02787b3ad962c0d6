//! Conditions of a [`RunFilter`]: one arm for each kind of condition, none for a single filter.

use rust_decimal::prelude::ToPrimitive;
use rust_decimal::{Decimal, RoundingStrategy};
use schemas::filter::{Condition, Declaration, Measure, RunFilter, STALE_AFTER_MS, Value as Given};
use schemas::timestamp::UnixMs;

use super::{Conditions, Value, time};

/// Value of `latency_key` for a run without a latency.
const NO_LATENCY: i64 = i32::MIN as i64;
/// A condition that no run satisfies.
const NOTHING: &str = "0";
/// Digits after the point of a cost, as the table keeps it.
const COST_SCALE: u32 = 18;

/// The whole filter except the bounds on the start, which the reader folds into its windows.
pub(crate) fn conditions(filter: &RunFilter, now_ms: UnixMs) -> Conditions {
    let mut all = Conditions::default();
    for (declared, value) in filter.given().filter(|(declared, _)| !is_start(declared)) {
        require(&mut all, declared, value, now_ms);
    }
    all
}

/// The bounds on the start.
pub(crate) fn start_bounds(filter: &RunFilter) -> Conditions {
    let mut all = Conditions::default();
    for (declared, value) in filter.given().filter(|(declared, _)| is_start(declared)) {
        require(&mut all, declared, value, 0);
    }
    all
}

/// Whether a filter is a bound on the start.
pub(crate) fn is_start(declared: &Declaration) -> bool {
    matches!(
        declared.condition,
        Condition::AtLeast(Measure::Start) | Condition::AtMost(Measure::Start)
    )
}

/// Adds the condition of one filter. A kind of value that the condition cannot compare matches no run, so that a wrong
/// declaration never returns all of them; a test makes sure that there is none.
fn require(all: &mut Conditions, declared: &Declaration, value: Given<'_>, now_ms: UnixMs) {
    let name = format!("f_{}", declared.name);
    match (declared.condition, value) {
        (Condition::Equals(column), Given::Text(text)) => {
            let sql = format!("{column} = {{{name}:String}}");
            all.and_with(&sql, &name, Value::Text(text.to_owned()));
        }
        (Condition::Equals(column), Given::Word(word)) => all.and(&format!("{column} = '{word}'")),
        (Condition::IsType, Given::Text("llm")) => all.and("(type = 'llm' OR calls > 0)"),
        (Condition::IsType, Given::Text(text)) => {
            let sql = format!("type = {{{name}:String}}");
            all.and_with(&sql, &name, Value::Text(text.to_owned()));
        }
        (Condition::IsTrue(column), Given::Flag(flag)) => {
            all.and(&format!("{column} = {}", u8::from(flag)));
        }
        (Condition::IsEmpty(column), Given::Flag(true))
        | (Condition::IsSet(column), Given::Flag(false)) => all.and(&format!("{column} = ''")),
        (Condition::IsEmpty(column), Given::Flag(false))
        | (Condition::IsSet(column), Given::Flag(true)) => all.and(&format!("{column} != ''")),
        (Condition::Rating(column), Given::Word(word)) => all.and(&match word {
            "any" => format!("{column} != ''"),
            "none" => format!("{column} = ''"),
            rating => format!("{column} = '{rating}'"),
        }),
        (Condition::AtLeast(measure), value) => bound(all, measure, ">=", &name, value),
        (Condition::AtMost(measure), value) => bound(all, measure, "<=", &name, value),
        (Condition::HasAny(column), Given::Texts(texts)) => {
            let sql = format!("hasAny({column}, {{{name}:Array(String)}})");
            all.and_with(&sql, &name, Value::Texts(texts.to_vec()));
        }
        (Condition::HasAll(column), Given::Texts(texts)) => {
            let sql = format!("hasAll({column}, {{{name}:Array(String)}})");
            all.and_with(&sql, &name, Value::Texts(texts.to_vec()));
        }
        (Condition::HasEntries(column), Given::Entries(entries)) => {
            for (number, (key, value)) in entries.iter().enumerate() {
                let (of_key, of_value) = (format!("{name}_key{number}"), format!("{name}{number}"));
                let sql = format!("{column}[{{{of_key}:String}}] = {{{of_value}:String}}");
                all.and_with(&sql, &of_key, Value::Text(key.clone()));
                all.give(&of_value, Value::Text(value.clone()));
            }
        }
        (Condition::Stale, Given::Flag(stale)) => {
            let before = time(now_ms.saturating_sub(STALE_AFTER_MS));
            let start = "fromUnixTimestamp64Milli({f_stale_before:Int64}, 'UTC')";
            let sql = match stale {
                true => format!("status = 'started' AND started_at < {start}"),
                false => format!("(status != 'started' OR started_at >= {start})"),
            };
            all.and_with(&sql, "f_stale_before", before);
        }
        (Condition::Contains, Given::Text(text)) => search(all, text),
        (
            Condition::Equals(_)
            | Condition::IsType
            | Condition::IsTrue(_)
            | Condition::IsEmpty(_)
            | Condition::IsSet(_)
            | Condition::Rating(_)
            | Condition::HasAny(_)
            | Condition::HasAll(_)
            | Condition::HasEntries(_)
            | Condition::Stale
            | Condition::Contains,
            _,
        ) => all.and(NOTHING),
    }
}

/// Adds a bound on a measure: a comparison such as `>=`, and the name of its parameter.
fn bound(all: &mut Conditions, measure: Measure, compare: &str, name: &str, value: Given<'_>) {
    match (measure, value) {
        (Measure::Latency, Given::Decimal(seconds)) => {
            let ms = stored(seconds * Decimal::ONE_THOUSAND, 0, compare);
            let ms = ms.to_i64().unwrap_or(i64::MAX);
            let key = ms.clamp(NO_LATENCY + 1, i64::from(i32::MAX));
            if compare == "<=" {
                all.and("latency_key > -2147483648");
            }
            let sql = format!("latency_key {compare} {{{name}_key:Int32}}");
            all.and_with(&sql, &format!("{name}_key"), Value::Number(key));
            // The narrow key holds at most 24 days.
            if ms >= i64::from(i32::MAX) {
                let sql = format!("latency_ms {compare} {{{name}:Int64}}");
                all.and_with(&sql, name, Value::Number(ms));
            }
        }
        // The narrow key first: rounding to a float keeps the order, so the exact comparison excludes whatever the
        // narrow one excludes.
        (Measure::Cost, Given::Decimal(cost)) => {
            let cost = stored(cost, COST_SCALE, compare);
            let amount = format!("{{{name}:Decimal(38, 18)}}");
            all.and(&format!("cost_key {compare} toFloat32({amount})"));
            let sql = format!("total_cost {compare} {amount}");
            all.and_with(&sql, name, Value::Text(cost.to_string()));
        }
        (Measure::Tokens, Given::Number(tokens)) => {
            let sql = format!("total_tokens_with_children {compare} {{{name}:Int64}}");
            all.and_with(&sql, name, Value::Number(tokens));
        }
        (Measure::TimeToFirstToken, Given::Number(ttft_ms)) => {
            let sql = format!("ifNull(ttft_ms {compare} {{{name}:Int64}}, 0)");
            all.and_with(&sql, name, Value::Number(ttft_ms));
        }
        (Measure::Start, Given::Number(start_ms)) => {
            let sql =
                format!("started_at {compare} fromUnixTimestamp64Milli({{{name}:Int64}}, 'UTC')");
            all.and_with(&sql, name, time(start_ms));
        }
        (
            Measure::Latency
            | Measure::Cost
            | Measure::Tokens
            | Measure::TimeToFirstToken
            | Measure::Start,
            _,
        ) => all.and(NOTHING),
    }
}

/// The bound that selects the same among values of so many digits after the point.
fn stored(bound: Decimal, scale: u32, compare: &str) -> Decimal {
    let inwards = match compare {
        ">=" => RoundingStrategy::ToPositiveInfinity,
        _ => RoundingStrategy::ToNegativeInfinity,
    };
    bound.round_dp_with_strategy(scale, inwards)
}

/// The expression that `q` searches, word for word as in the index `by_text`.
const SEARCHED: &str = "lowerUTF8(concat(name, '\\n', error_name, '\\n', error_message, '\\n', input_preview, '\\n', output_preview))";

/// Searches a text in the fields, both in lower case. The index only narrows the search.
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
    let sql = format!("{SEARCHED} LIKE lowerUTF8({{f_q:String}})");
    all.and_with(&sql, "f_q", Value::Text(pattern));
    if text.contains('\n') {
        // Fields are searched as one text with line breaks between them: a text with a line break could match across
        // two.
        let within = [
            "name",
            "error_name",
            "error_message",
            "input_preview",
            "output_preview",
        ]
        .map(|field| format!("lowerUTF8({field}) LIKE lowerUTF8({{f_q:String}})"));
        all.and(&format!("({})", within.join(" OR ")));
    }
}

#[cfg(test)]
mod tests {
    use schemas::filter::{FILTERS, RunQuery, Shape};

    use super::*;

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
            "error",
            "q",
            "tags",
            "tags_all",
            "metadata.x' OR 1=1 --",
        ];
        let pairs: Vec<(&str, &str)> = names.iter().map(|name| (*name, hostile)).collect();
        let found = sql_of(&pairs);
        assert!(!found.sql().contains("1=1"), "{}", found.sql());
        let texts = found.values.iter().filter(|(_, value)| match value {
            // The searched text is between wildcards.
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
    fn every_declared_filter_requires_something_it_can_compare() {
        for declared in FILTERS {
            let (name, values) = match declared.shape {
                Shape::Text(_) | Shape::Tags => (declared.name.to_owned(), &["x"][..]),
                Shape::Choice(words) => (declared.name.to_owned(), words),
                Shape::Flag => (declared.name.to_owned(), &["true", "false"][..]),
                Shape::Seconds | Shape::Dollars | Shape::Count | Shape::Time => {
                    (declared.name.to_owned(), &["1"][..])
                }
                Shape::Entries => (format!("{}.key", declared.name), &["x"][..]),
            };
            for value in values {
                let found = sql_of(&[(&name, value)]);
                assert_ne!(found.sql(), "1", "{name}={value} filters nothing");
                assert_ne!(found.sql(), NOTHING, "{name}={value} cannot be compared");
            }
        }
    }

    #[test]
    fn an_unfinished_run_is_outside_of_every_latency_filter() {
        assert!(
            sql_of(&[("min_latency_s", "0")])
                .sql()
                .contains("latency_key >= {f_min_latency_s_key:Int32}")
        );
        assert!(
            sql_of(&[("max_latency_s", "9")])
                .sql()
                .contains("latency_key > -2147483648")
        );
    }
}
