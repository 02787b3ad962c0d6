//! Two runs side by side: what differs between them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use utoipa::ToSchema;

use crate::money::Dollars;
use crate::run::{Run, RunDetail, Seconds};

/// Which runs to compare.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CompareRuns {
    /// One run.
    #[schema(min_length = 1, max_length = 256)]
    pub run_id_a: String,
    /// The other one.
    #[schema(min_length = 1, max_length = 256)]
    pub run_id_b: String,
    /// The app of the one, where several have a run of that id.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 256)]
    pub app_id_a: Option<String>,
    /// The app of the other one.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 256)]
    pub app_id_b: Option<String>,
}

/// Two runs and what differs between them.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Comparison {
    /// One run.
    pub a: RunDetail,
    /// The other one.
    pub b: RunDetail,
    /// What differs.
    pub differences: Differences,
}

/// What differs between two runs.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Differences {
    /// Lengths in seconds.
    pub latency_s: Difference,
    /// Own costs in USD.
    pub cost: Difference,
    /// Costs in USD with all descendants.
    pub total_cost: Difference,
    /// Tokens of the prompt.
    pub prompt_tokens: Difference,
    /// Tokens of the completion.
    pub completion_tokens: Difference,
    /// Tokens in all.
    pub total_tokens: Difference,
    /// Tokens with all descendants.
    pub total_tokens_with_children: Difference,
    /// The fields that differ, metadata among them as `metadata.<key>`.
    pub fields: Vec<FieldDifference>,
    /// Tags that only the one run has.
    pub tags_only_a: Vec<String>,
    /// Tags that only the other one has.
    pub tags_only_b: Vec<String>,
    /// Whether the inputs are the same JSON value; two that are missing are.
    pub input_equal: bool,
    /// Whether the outputs are.
    pub output_equal: bool,
}

/// Two numbers.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Difference {
    /// Of the one run; `null` where it is not known.
    #[schema(value_type = Option<f64>)]
    pub a: Option<Box<RawValue>>,
    /// Of the other one.
    #[schema(value_type = Option<f64>)]
    pub b: Option<Box<RawValue>>,
    /// The second less the first; `null` where one is not known.
    #[schema(value_type = Option<f64>)]
    pub delta: Option<Box<RawValue>>,
    /// The second by the first; `null` where one is not known or the first is zero.
    pub ratio: Option<f64>,
}

/// A field that differs.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct FieldDifference {
    /// Its name.
    pub field: String,
    /// Its value in the one run, `null` where it has none.
    #[schema(value_type = Option<serde_json::Value>)]
    pub a: Option<Box<RawValue>>,
    /// Its value in the other one.
    #[schema(value_type = Option<serde_json::Value>)]
    pub b: Option<Box<RawValue>>,
}

pub fn differences(a: &RunDetail, b: &RunDetail) -> Differences {
    let cost = |amount: i128| raw(&Dollars(amount));
    let tokens = |of: fn(&Run) -> Option<u64>| {
        let count = |run: &Run| of(run).map(i128::from);
        difference(count(&a.run), count(&b.run), |count| raw(&count))
    };
    let latency = |run: &Run| run.latency_s.map(|Seconds(ms)| i128::from(ms));
    Differences {
        latency_s: difference(latency(&a.run), latency(&b.run), |ms| {
            raw(&Seconds(i64::try_from(ms).unwrap_or(i64::MAX)))
        }),
        cost: difference(Some(a.run.cost.0), Some(b.run.cost.0), cost),
        total_cost: difference(Some(a.run.total_cost.0), Some(b.run.total_cost.0), cost),
        prompt_tokens: tokens(|run| run.prompt_tokens),
        completion_tokens: tokens(|run| run.completion_tokens),
        total_tokens: tokens(|run| run.total_tokens),
        total_tokens_with_children: tokens(|run| Some(run.total_tokens_with_children)),
        fields: fields(a, b),
        tags_only_a: only(&a.run.tags, &b.run.tags),
        tags_only_b: only(&b.run.tags, &a.run.tags),
        input_equal: are_equal(a.input.as_deref(), b.input.as_deref()),
        output_equal: are_equal(a.output.as_deref(), b.output.as_deref()),
    }
}

fn difference(
    a: Option<i128>,
    b: Option<i128>,
    show: impl Fn(i128) -> Option<Box<RawValue>>,
) -> Difference {
    let both = a.zip(b);
    Difference {
        a: a.and_then(&show),
        b: b.and_then(&show),
        delta: both.and_then(|(a, b)| show(b.saturating_sub(a))),
        ratio: both
            .filter(|(a, _)| *a != 0)
            .map(|(a, b)| b as f64 / a as f64),
    }
}

fn fields(a: &RunDetail, b: &RunDetail) -> Vec<FieldDifference> {
    let error = |run: &Run, of: fn(&crate::run::RunError) -> Option<String>| {
        raw(&run.error.as_ref().and_then(of))
    };
    let name = |error: &crate::run::RunError| error.name.clone();
    let message = |error: &crate::run::RunError| Some(error.message.clone());
    let (one, other) = (&a.run, &b.run);
    let mut all: Vec<FieldDifference> = [
        ("app_id", raw(&one.app_id), raw(&other.app_id)),
        ("name", raw(&one.name), raw(&other.name)),
        ("type", raw(&one.kind), raw(&other.kind)),
        ("status", raw(&one.status), raw(&other.status)),
        ("agent", raw(&one.agent), raw(&other.agent)),
        ("model", raw(&one.model), raw(&other.model)),
        ("user_email", raw(&one.user_email), raw(&other.user_email)),
        ("thread_id", raw(&one.thread_id), raw(&other.thread_id)),
        (
            "parent_run_id",
            raw(&one.parent_run_id),
            raw(&other.parent_run_id),
        ),
        (
            "cost_status",
            raw(&one.cost_status),
            raw(&other.cost_status),
        ),
        ("saved", raw(&one.saved), raw(&other.saved)),
        ("error.name", error(one, name), error(other, name)),
        ("error.message", error(one, message), error(other, message)),
    ]
    .into_iter()
    .map(|(field, a, b)| FieldDifference {
        field: field.to_owned(),
        a,
        b,
    })
    .collect();
    let keys: BTreeSet<&String> = a.metadata.keys().chain(b.metadata.keys()).collect();
    all.extend(keys.into_iter().map(|key| {
        let of = |run: &RunDetail| run.metadata.get(key).cloned();
        FieldDifference {
            field: format!("metadata.{key}"),
            a: of(a),
            b: of(b),
        }
    }));
    all.retain(|field| !are_equal(field.a.as_deref(), field.b.as_deref()));
    all
}

/// Whether two texts are the same JSON value; if one is nested too deep to be parsed, whether the texts are equal.
fn are_equal(a: Option<&RawValue>, b: Option<&RawValue>) -> bool {
    let (a, b) = match (a, b) {
        (None, None) => return true,
        (Some(a), Some(b)) => (a.get(), b.get()),
        _ => return false,
    };
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    a == b || read(a).zip(read(b)).is_some_and(|(a, b)| a == b)
}

fn only(of: &[String], not_of: &[String]) -> Vec<String> {
    of.iter()
        .filter(|tag| !not_of.contains(tag))
        .cloned()
        .collect()
}

fn raw<T: Serialize>(value: &T) -> Option<Box<RawValue>> {
    to_raw_value(value)
        .ok()
        .filter(|value| value.get() != "null")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn values_are_equal_whatever_their_blanks_and_order() {
        let equal = |a: &str, b: &str| are_equal(Some(&json(a)), Some(&json(b)));
        assert!(equal(r#"{"a": 1, "b": [2]}"#, r#"{"b":[2],"a":1}"#));
        assert!(!equal(r#"[1, 2]"#, r#"[2, 1]"#));
        assert!(are_equal(None, None) && !are_equal(None, Some(&json("1"))));
        let deep = |inside: &str| format!("{}{inside}{}", "[".repeat(400), "]".repeat(400));
        assert!(equal(&deep("1"), &deep("1")) && !equal(&deep("1"), &deep("2")));
    }

    #[test]
    fn a_difference_is_exact_and_has_a_ratio_where_there_is_one() {
        let shown = |a, b| {
            let difference = difference(a, b, |amount| raw(&Dollars(amount)));
            serde_json::to_string(&difference).unwrap()
        };
        assert_eq!(
            shown(
                Some(1_000_000_000_000_000_001),
                Some(500_000_000_000_000_000)
            ),
            r#"{"a":1.000000000000000001,"b":0.5,"delta":-0.500000000000000001,"ratio":0.5}"#
        );
        assert_eq!(
            shown(Some(0), Some(1)),
            r#"{"a":0,"b":0.000000000000000001,"delta":0.000000000000000001,"ratio":null}"#
        );
        assert_eq!(
            shown(None, Some(0)),
            r#"{"a":null,"b":0,"delta":null,"ratio":null}"#
        );
    }
}
