//! `data.json` of genai-prices: a list of providers with their models, in USD per million tokens and per thousand
//! requests.

use std::collections::BTreeMap;

use schemas::price::kinds::RateKind;
use schemas::price::rate::{Per, Rate};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::super::price_file::Entry;
use super::{Draft, NOT_PER_TOKEN, Skipped, Taken, number};

const KINDS: [(&str, RateKind); 8] = [
    ("input_mtok", RateKind::Input),
    ("output_mtok", RateKind::Output),
    ("cache_read_mtok", RateKind::CachedInput),
    ("cache_write_mtok", RateKind::CacheWrite),
    ("cache_write_1h_mtok", RateKind::CacheWrite1h),
    ("input_audio_mtok", RateKind::InputAudio),
    ("input_image_mtok", RateKind::InputImage),
    ("output_audio_mtok", RateKind::OutputAudio),
];
/// USD per thousand, the first that is there.
const REQUESTS: [&str; 2] = ["requests_kcount", "web_searches_kcount"];
/// Providers whose models are named as they are. Others serve models of these, or names that several have, so their
/// names begin with the provider.
const MAKERS: [&str; 9] = [
    "anthropic",
    "cohere",
    "deepseek",
    "google",
    "mistral",
    "openai",
    "perplexity",
    "voyageai",
    "x-ai",
];
/// What gateways call a provider, where it is another name.
const HOSTS: [(&str, &str); 4] = [
    ("aws", "bedrock"),
    ("fireworks", "fireworks_ai"),
    ("moonshotai", "moonshot"),
    ("together", "together_ai"),
];
const BY_TIME: &str = "a price by the time of day, left out";
const PATTERN: &str =
    "names by a pattern, left out: only the identifier and names that are written out are taken";

#[derive(Deserialize)]
struct Provider {
    id: String,
    models: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    id: String,
    #[serde(rename = "match")]
    matches: Option<Match>,
    prices: Box<RawValue>,
    #[serde(default)]
    price_variants: Vec<Variant>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Match {
    equals: Option<String>,
    or: Vec<Match>,
}

type Prices = BTreeMap<String, Box<RawValue>>;

#[derive(Deserialize)]
struct Conditional {
    constraint: Option<Constraint>,
    prices: Prices,
}

#[derive(Deserialize)]
struct Constraint {
    start_date: Option<String>,
}

#[derive(Deserialize)]
struct Variant {
    when: BTreeMap<String, String>,
    prices: Prices,
}

/// A price, or one with steps by the length of the prompt.
#[derive(Deserialize)]
struct Steps {
    base: Box<RawValue>,
    #[serde(default)]
    tiers: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    start: u64,
    price: Box<RawValue>,
}

pub(crate) fn read(text: &str) -> Result<(Vec<Entry>, Skipped), String> {
    let providers: Vec<Provider> = serde_json::from_str(text).map_err(|error| {
        format!("not genai-prices' list, a list of providers with models: {error}")
    })?;
    let mut taken = Taken::default();
    for provider in providers {
        for model in &provider.models {
            take(&provider.id, model, &mut taken)?;
        }
    }
    Ok((taken.entries, taken.skipped))
}

fn take(provider: &str, model: &Model, taken: &mut Taken) -> Result<(), String> {
    let mut names = vec![model.id.clone()];
    let has_pattern = model
        .matches
        .as_ref()
        .is_some_and(|matches| add_names(matches, &mut names));
    let name = full_name(provider, &model.id);
    if has_pattern {
        taken.skip(PATTERN, &name);
    }
    let dated = match conditional(model) {
        Ok(dated) => dated,
        Err(reason) => {
            taken.skip(reason, &name);
            return Ok(());
        }
    };
    for part in dated {
        let from = match part.constraint {
            None => None,
            Some(Constraint {
                start_date: Some(date),
            }) => Some(date),
            Some(_) => {
                taken.skip(BY_TIME, &name);
                continue;
            }
        };
        match draft(&part.prices, &model.price_variants) {
            Ok((draft, left_out)) => {
                left_out
                    .into_iter()
                    .for_each(|reason| taken.skip(reason, &name));
                for name in &names {
                    taken.take(Draft {
                        model: full_name(provider, name),
                        effective_from: from.clone(),
                        ..draft.clone()
                    })?;
                }
            }
            Err(reason) => taken.skip(reason, &name),
        }
    }
    Ok(())
}

fn full_name(provider: &str, name: &str) -> String {
    if MAKERS.contains(&provider) {
        return name.to_owned();
    }
    let other = HOSTS.iter().find(|(id, _)| *id == provider);
    format!("{}/{name}", other.map_or(provider, |(_, host)| host))
}

/// Adds the names that are written out; `true` if there are patterns too.
fn add_names(matches: &Match, names: &mut Vec<String>) -> bool {
    match (&matches.equals, &matches.or[..]) {
        (Some(name), _) => {
            if !names.contains(name) {
                names.push(name.clone());
            }
            false
        }
        (None, []) => true,
        (None, all) => {
            let mut has_pattern = false;
            for matches in all {
                has_pattern |= add_names(matches, names);
            }
            has_pattern
        }
    }
}

/// The prices of a model, each from its date on.
fn conditional(model: &Model) -> Result<Vec<Conditional>, &'static str> {
    let json = model.prices.get();
    if json.starts_with('[') {
        return serde_json::from_str(json).map_err(|_| NOT_PER_TOKEN);
    }
    let prices = serde_json::from_str(json).map_err(|_| NOT_PER_TOKEN)?;
    Ok(vec![Conditional {
        constraint: None,
        prices,
    }])
}

fn draft(
    prices: &Prices,
    variants: &[Variant],
) -> Result<(Draft, Vec<&'static str>), &'static str> {
    let mut draft = Draft::default();
    for (field, kind) in KINDS {
        let Some(value) = prices.get(field) else {
            continue;
        };
        let (base, steps) = steps(value, Per::Million)?;
        draft.kinds.set(kind, base);
        for (start, rate) in steps {
            draft.tiers.entry(start).or_default().set(kind, Some(rate));
        }
    }
    let input = draft.kinds.get(RateKind::Input).ok_or(NOT_PER_TOKEN)?;
    if draft.kinds.get(RateKind::Output).is_none() {
        draft.kinds.set(RateKind::Output, Some(Rate::default()));
        draft.kinds.set(RateKind::Total, Some(input));
    }
    for field in REQUESTS {
        if let (None, Some(value)) = (draft.request, prices.get(field)) {
            draft.request = steps(value, Per::Thousand)?.0;
        }
    }
    let mut left_out = Vec::new();
    for Variant { when, prices } in variants {
        let service = match when.iter().next() {
            Some((key, service))
                if when.len() == 1 && key == "service_tier" && service != "default" =>
            {
                service
            }
            Some((key, batch)) if when.len() == 1 && key == "processing" => batch,
            _ => continue,
        };
        let of = |field: &str| match prices.get(field) {
            Some(value) => Ok::<_, &'static str>(steps(value, Per::Million)?.0),
            None => Ok(None),
        };
        if let Some(input) = of("input_mtok")? {
            left_out.extend(
                draft
                    .add_service_tier(service, input, of("output_mtok")?)
                    .err(),
            );
        }
    }
    Ok((draft, left_out))
}

/// A price, and the prices of longer prompts.
type Stepped = (Option<Rate>, Vec<(u64, Rate)>);

/// A price and its steps.
fn steps(value: &RawValue, per: Per) -> Result<Stepped, &'static str> {
    if !value.get().starts_with('{') {
        return Ok((number(value, per)?, Vec::new()));
    }
    let Steps { base, tiers } = serde_json::from_str(value.get()).map_err(|_| NOT_PER_TOKEN)?;
    let mut steps = Vec::new();
    for Step { start, price } in tiers {
        steps.extend(number(&price, per)?.map(|rate| (start, rate)));
    }
    Ok((number(&base, per)?, steps))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{reasons, shown};
    use super::*;

    /// Made by hand in the format of the list.
    const LIST: &str = include_str!("../../../../tests/fixtures/prices/genai-prices.json");

    #[test]
    fn every_kind_tier_date_and_variant_is_taken() {
        let (entries, skipped) = read(LIST).unwrap();
        assert_eq!(
            shown(&entries),
            [
                concat!(
                    r#"claude-x 3/15 cached 0.3 {"kinds":{"cache_write":0.00000375,"cache_write_1h":0.000006},"#,
                    r#""request":0.01,"tiers":[{"above_input_tokens":200000,"kinds":{"cached_input":0.0000006,"#,
                    r#""input":0.000006,"output":0.0000225}}],"service_tiers":{"batch":0.5}}"#,
                ),
                concat!(
                    r#"claude-x-latest 3/15 cached 0.3 {"kinds":{"cache_write":0.00000375,"cache_write_1h":0.000006},"#,
                    r#""request":0.01,"tiers":[{"above_input_tokens":200000,"kinds":{"cached_input":0.0000006,"#,
                    r#""input":0.000006,"output":0.0000225}}],"service_tiers":{"batch":0.5}}"#,
                ),
                r#"claude-x@2026-03-13T00:00:00.000Z 3/15 {"service_tiers":{"batch":0.5}}"#,
                r#"claude-x-latest@2026-03-13T00:00:00.000Z 3/15 {"service_tiers":{"batch":0.5}}"#,
                r#"listener 0.6/2.4 {"kinds":{"input_audio":0.00001,"output_audio":0.00002}}"#,
                "embedder 0.02/0 total 0.02 ",
                "groq/llama-x 0.59/0.79 ",
                "together_ai/llama-x 0.88/0.88 ",
            ]
        );
        assert_eq!(
            reasons(&skipped),
            [
                "a price by the time of day, left out: night",
                "a price of this name was there before: listener",
                "names by a pattern, left out: only the identifier and names that are written out are taken: claude-x",
                "no price per token: speaker, night",
            ]
        );
    }

    #[test]
    fn another_file_is_no_list() {
        for text in ["{}", "[{\"id\": 1}]", "x"] {
            let fault = read(text).unwrap_err();
            assert!(fault.contains("genai-prices' list"), "{fault}");
        }
    }
}
