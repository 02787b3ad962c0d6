//! `model_prices_and_context_window.json` of litellm: an object of models, with USD per token.

use std::collections::BTreeMap;

use schemas::price::kinds::{KindRates, RateKind};
use schemas::price::rate::{Per, Rate};
use serde_json::value::RawValue;

use super::super::super::price_file::Entry;
use super::{Draft, NOT_PER_TOKEN, Skipped, Taken, number};

/// An entry that documents the fields.
const SAMPLE: &str = "sample_spec";

const KINDS: [(&str, RateKind); 9] = [
    ("input_cost_per_token", RateKind::Input),
    ("output_cost_per_token", RateKind::Output),
    ("cache_read_input_token_cost", RateKind::CachedInput),
    ("cache_creation_input_token_cost", RateKind::CacheWrite),
    (
        "cache_creation_input_token_cost_above_1hr",
        RateKind::CacheWrite1h,
    ),
    ("input_cost_per_audio_token", RateKind::InputAudio),
    ("input_cost_per_image_token", RateKind::InputImage),
    ("output_cost_per_audio_token", RateKind::OutputAudio),
    ("output_cost_per_reasoning_token", RateKind::Reasoning),
];
/// USD per request, the first that is there.
const REQUESTS: [&str; 2] = ["input_cost_per_request", "input_cost_per_query"];
/// What stands behind the names of prices of a service tier.
const SERVICES: [(&str, &str); 3] = [
    ("_batches", "batch"),
    ("_flex", "flex"),
    ("_priority", "priority"),
];
/// Modes whose models have no output.
const WITHOUT_OUTPUT: [&str; 3] = ["embedding", "rerank", "moderation"];

type Model = BTreeMap<String, Box<RawValue>>;

pub(crate) fn read(text: &str) -> Result<(Vec<Entry>, Skipped), String> {
    let models: BTreeMap<String, Model> = serde_json::from_str(text)
        .map_err(|error| format!("not litellm's list, an object of models: {error}"))?;
    let mut taken = Taken::default();
    for (name, model) in models.into_iter().filter(|(name, _)| name != SAMPLE) {
        match draft(&name, &model) {
            Ok((draft, left_out)) => {
                left_out
                    .into_iter()
                    .for_each(|reason| taken.skip(reason, &name));
                taken.take(draft)?;
            }
            Err(reason) => taken.skip(reason, &name),
        }
    }
    Ok((taken.entries, taken.skipped))
}

fn draft(name: &str, model: &Model) -> Result<(Draft, Vec<&'static str>), &'static str> {
    let mut draft = Draft {
        model: name.to_owned(),
        kinds: kinds(model)?,
        tiers: tiers(model)?,
        ..Draft::default()
    };
    // Some models have all of their prices by the length of the prompt.
    let by_length: Vec<Model> = match model.get("tiered_pricing") {
        Some(list) => serde_json::from_str(list.get()).map_err(|_| NOT_PER_TOKEN)?,
        None => Vec::new(),
    };
    for part in &by_length {
        let rates = kinds(part)?;
        let range = part
            .get("range")
            .and_then(|range| serde_json::from_str::<Vec<f64>>(range.get()).ok());
        match range.as_deref() {
            Some([from, ..]) if *from >= 1.0 => {
                draft.tiers.entry(*from as u64).or_insert(rates);
            }
            _ if draft.kinds.is_empty() => draft.kinds = rates,
            _ => {}
        }
    }
    draft.tiers.retain(|_, rates| !rates.is_empty());
    let input = draft.kinds.get(RateKind::Input).ok_or(NOT_PER_TOKEN)?;
    if draft.kinds.get(RateKind::Output).is_none() {
        let mode = model
            .get("mode")
            .and_then(|mode| serde_json::from_str::<String>(mode.get()).ok());
        if !mode.is_some_and(|mode| WITHOUT_OUTPUT.contains(&mode.as_str())) {
            return Err(NOT_PER_TOKEN);
        }
        draft.kinds.set(RateKind::Output, Some(Rate::default()));
    }
    if draft.kinds.get(RateKind::Output) == Some(Rate::default()) {
        // Then the total is the input.
        draft.kinds.set(RateKind::Total, Some(input));
    }
    for field in REQUESTS {
        let rate = rate(model, field)?.filter(|rate| *rate > Rate::default());
        draft.request = draft.request.or(rate);
    }
    let mut left_out = Vec::new();
    for (suffix, service) in SERVICES {
        let of = |kind: &str| rate(model, &format!("{kind}{suffix}"));
        if let Some(input) = of("input_cost_per_token")? {
            let output = of("output_cost_per_token")?;
            left_out.extend(draft.add_service_tier(service, input, output).err());
        }
    }
    Ok((draft, left_out))
}

fn kinds(model: &Model) -> Result<KindRates, &'static str> {
    let mut kinds = KindRates::default();
    for (field, kind) in KINDS {
        kinds.set(kind, rate(model, field)?);
    }
    Ok(kinds)
}

/// `input_cost_per_token_above_200k_tokens` and the like.
fn tiers(model: &Model) -> Result<BTreeMap<u64, KindRates>, &'static str> {
    let mut tiers: BTreeMap<u64, KindRates> = BTreeMap::new();
    for (field, value) in model {
        for (name, kind) in KINDS {
            let bound = field
                .strip_prefix(name)
                .and_then(|rest| rest.strip_prefix("_above_"));
            let thousands =
                bound.and_then(|bound| bound.strip_suffix("k_tokens")?.parse::<u64>().ok());
            let Some(thousands) = thousands else {
                continue;
            };
            if let Some(rate) = number(value, Per::One)? {
                let tier = tiers.entry(thousands.saturating_mul(1000)).or_default();
                tier.set(kind, Some(rate));
            }
        }
    }
    Ok(tiers)
}

fn rate(model: &Model, field: &str) -> Result<Option<Rate>, &'static str> {
    match model.get(field) {
        Some(value) => number(value, Per::One),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{reasons, shown};
    use super::*;

    /// Made by hand in the format of the list.
    const LIST: &str = include_str!("../../../../tests/fixtures/prices/litellm.json");

    #[test]
    fn every_kind_tier_and_service_is_taken() {
        let (entries, skipped) = read(LIST).unwrap();
        assert_eq!(
            shown(&entries),
            [
                r#"embedder 0.02/0 total 0.02 {"service_tiers":{"batch":0.5}}"#,
                concat!(
                    r#"maker/large 3/15 cached 0.3 {"kinds":{"cache_write":0.00000375,"cache_write_1h":0.000006},"#,
                    r#""tiers":[{"above_input_tokens":200000,"kinds":{"cache_write_1h":0.000012,"#,
                    r#""cached_input":0.0000006,"input":0.000006,"output":0.0000225}}],"#,
                    r#""service_tiers":{"batch":0.5,"priority":2}}"#,
                ),
                r#"maker/sound 0.3/2.5 {"kinds":{"input_audio":0.000001,"input_image":0.0000003,"output_audio":0.00001}}"#,
                r#"maker/steps 1.2/6 {"tiers":[{"above_input_tokens":32000,"kinds":{"input":0.0000024,"output":0.000012}}]}"#,
                r#"ranker 2/0 total 2 {"request":0.002}"#,
            ]
        );
        assert_eq!(
            reasons(&skipped),
            [
                "a price of nothing, which lists have for what they do not know: local",
                "a price that is no number from 0 to 1 USD per token: odd",
                "a service tier without a common factor, left out: maker/large",
                "no price per token: painter, speaker",
            ]
        );
    }

    #[test]
    fn another_file_is_no_list() {
        for text in ["[]", "{\"m\": 1}", "x"] {
            let fault = read(text).unwrap_err();
            assert!(fault.contains("litellm's list"), "{fault}");
        }
    }
}
