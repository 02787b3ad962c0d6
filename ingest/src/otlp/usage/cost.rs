//! Cost and service tier that a client gives.

use serde_json::Value;

use super::super::attributes::Attributes;
use super::super::value::{Any, parsed};
use super::super::vocabulary::Used;
use super::names;

/// USD by the client's own price list, above zero: clients write 0 for what they have no price for, and for calls that
/// failed.
pub(super) fn of_client(attributes: &Attributes<'_>, used: Used) -> Option<f64> {
    attributes
        .first(names::COST, amount)
        .or_else(|| {
            let mut totals = used.names(|one| one.cost);
            totals.find_map(|name| {
                let any = attributes.get(name)?;
                amount(any).or_else(|| total(&parsed(any)))
            })
        })
        .or_else(|| {
            let mut objects = used.names(|one| one.costs);
            objects.find_map(|name| {
                let costs = parsed(attributes.take(name)?);
                total(&costs).or_else(|| sum(&costs))
            })
        })
        .or_else(|| {
            let mut pairs = names::COST_PARTS.iter();
            pairs.find_map(|pair| {
                let costs = pair.iter().filter_map(|name| amount(attributes.get(name)?));
                costs.reduce(|sum, cost| sum + cost).and_then(rounded)
            })
        })
}

/// The total in an object of costs.
fn total(object: &Value) -> Option<f64> {
    let mut totals = ["total", "total_cost", "totalCost", "response_cost"]
        .into_iter()
        .filter_map(|key| object.get(key)?.as_f64());
    totals.next().and_then(rounded)
}

fn sum(object: &Value) -> Option<f64> {
    let costs = object.as_object()?.values().filter_map(Value::as_f64);
    rounded(costs.sum())
}

/// The tier that served the call, else the one that was asked for; the default one is none.
pub(super) fn service_tier(attributes: &Attributes<'_>) -> Option<String> {
    let mut given = names::SERVICE_TIER
        .iter()
        .filter_map(|key| Some((key, attributes.text(key)?)));
    let (key, tier) = given.next()?;
    let tier = tier_of(tier)?;
    attributes.take(key);
    Some(tier)
}

/// A tier with a price of its own.
pub(super) fn tier_of(name: &str) -> Option<String> {
    let name = name.trim().to_ascii_lowercase();
    let is_default = ["default", "standard", "auto", "standard_only", "on_demand"];
    let is_name = (1..=schemas::limits::NAME_BYTES).contains(&name.len());
    (is_name && !is_default.contains(&name.as_str())).then_some(name)
}

pub(crate) fn amount(any: &Any) -> Option<f64> {
    match any {
        Any::DoubleValue(number) => rounded(*number),
        Any::IntValue(number) => rounded(*number as f64),
        Any::StringValue(text) => rounded(text.parse().ok()?),
        _ => None,
    }
}

/// An amount of money above zero and below the bound of an event, rounded to an event's digits: less than a millionth
/// of a millionth is nothing.
pub(super) fn rounded(number: f64) -> Option<f64> {
    let number = match number < 1.0 {
        true => (number * 1e12).round() / 1e12,
        false => number,
    };
    (number > 0.0 && number < 1e12).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_one_that_an_event_may_carry() {
        for (given, expected) in [
            (0.25, Some(0.25)),
            (1.234_567_890_123_456_7e-9, Some(1.235e-9)),
            (1e-30, None),
            (f64::MIN_POSITIVE, None),
            (0.0, None),
            (1e12, None),
            (f64::NAN, None),
            (999_999_999_999.5, Some(999_999_999_999.5)),
        ] {
            assert_eq!(amount(&Any::DoubleValue(given)), expected, "{given}");
        }
    }

    #[test]
    fn the_default_tier_is_none() {
        for (name, expected) in [
            ("default", None),
            ("standard", None),
            ("auto", None),
            ("", None),
            ("Flex", Some("flex")),
            ("priority", Some("priority")),
            ("batch", Some("batch")),
        ] {
            assert_eq!(tier_of(name).as_deref(), expected, "{name}");
        }
    }
}
