use proptest::prelude::*;
use proptest::sample::select;
use rust_decimal::Decimal;

use super::super::rate::Per;
use super::*;

fn rate(per_1m: &str) -> Rate {
    Rate::read(per_1m, Per::Million).unwrap()
}

fn kinds(per_1m: &[(RateKind, &str)]) -> KindRates {
    per_1m
        .iter()
        .map(|(kind, price)| (*kind, rate(price)))
        .collect()
}

fn tier(above_input_tokens: u64, per_1m: &[(RateKind, &str)]) -> RateTier {
    RateTier {
        above_input_tokens,
        rates: kinds(per_1m),
    }
}

fn factors(of: &[(&str, &str)]) -> Vec<ServiceTier> {
    let tier = |(name, factor): &(&str, &str)| ServiceTier {
        name: (*name).into(),
        factor: Factor::read(factor).unwrap(),
    };
    of.iter().map(tier).collect()
}

/// Claude's prices with those for long prompts and for batches.
fn sonnet() -> Rates {
    use RateKind::{CacheWrite, CacheWrite1h, CachedInput, Input, Output};
    let all = kinds(&[
        (Input, "3"),
        (Output, "15"),
        (CachedInput, "0.3"),
        (CacheWrite, "3.75"),
        (CacheWrite1h, "6"),
    ]);
    let special = SpecialRates {
        request: Rate::read("0.01", Per::One).ok(),
        tiers: vec![tier(
            200_000,
            &[(Input, "6"), (Output, "22.5"), (CachedInput, "0.6")],
        )],
        service_tiers: factors(&[("batch", "0.5")]),
        ..SpecialRates::default()
    };
    Rates::of(&all, special).unwrap()
}

fn plain(input: &str, output: &str) -> Rates {
    Rates {
        input: rate(input),
        output: rate(output),
        ..Rates::default()
    }
}

fn call(prompt: u64, completion: u64) -> Usage<'static> {
    Usage {
        prompt: Some(prompt),
        completion: Some(completion),
        ..Usage::default()
    }
}

/// The amount and the kinds without a rate.
#[track_caller]
fn check(rates: &Rates, usage: Usage<'_>, amount: &str, unpriced: &[&str]) {
    let charge = rates.charge(usage);
    assert_eq!(charge.amount.normalize().to_string(), amount);
    let names: Vec<&str> = charge.unpriced.names().collect();
    assert_eq!(names, unpriced);
}

#[test]
fn cache_reads_and_writes_have_rates_of_their_own() {
    // input_tokens 20, cache_creation_input_tokens 900, cache_read_input_tokens 8000, output_tokens 11.
    let usage = Usage {
        cached: Some(8000),
        cache_write: Some(900),
        ..call(20 + 900 + 8000, 11)
    };
    check(&sonnet(), usage, "0.006", &[]);
    let hour = Usage {
        cache_write: Some(400),
        cache_write_1h: Some(500),
        ..usage
    };
    // 20 * 3 + 400 * 3.75 + 500 * 6 + 8000 * 0.3 + 11 * 15, per million.
    check(&sonnet(), hour, "0.007125", &[]);
}

#[test]
fn a_used_kind_without_a_rate_costs_what_the_rest_does_and_is_named() {
    let usage = Usage {
        cached: Some(10),
        cache_write: Some(10),
        cache_write_1h: Some(10),
        input_audio: Some(10),
        input_image: Some(10),
        output_audio: Some(5),
        reasoning: Some(20),
        requests: Some(2),
        service_tier: "priority",
        ..call(100, 50)
    };
    let all = [
        "cache_read",
        "cache_write",
        "cache_write_1h",
        "input_audio",
        "input_image",
        "output_audio",
        "request",
        "service_tier",
    ];
    check(&plain("1", "2"), usage, "0.0002", &all);
    // What was not used is not named.
    let none = Usage {
        cached: Some(0),
        requests: Some(0),
        service_tier: "Default",
        ..call(100, 50)
    };
    check(&plain("1", "2"), none, "0.0002", &[]);
    check(
        &plain("1", "2"),
        Usage {
            reasoning: Some(50),
            ..none
        },
        "0.0002",
        &[],
    );
}

#[test]
fn a_cache_write_of_an_hour_costs_at_least_what_other_cache_writes_do() {
    let writes = kinds(&[
        (RateKind::Input, "1"),
        (RateKind::Output, "1"),
        (RateKind::CacheWrite, "1.25"),
    ]);
    let rates = Rates::of(&writes, SpecialRates::default()).unwrap();
    let usage = Usage {
        cache_write_1h: Some(1000),
        ..call(1000, 0)
    };
    check(&rates, usage, "0.00125", &["cache_write_1h"]);
}

#[test]
fn audio_images_and_reasoning_are_charged_apart_where_they_have_rates() {
    use RateKind::{Input, InputAudio, InputImage, Output, OutputAudio, Reasoning};
    let all = kinds(&[
        (Input, "1"),
        (Output, "2"),
        (InputAudio, "10"),
        (InputImage, "100"),
        (OutputAudio, "1000"),
        (Reasoning, "10000"),
    ]);
    let usage = Usage {
        input_audio: Some(3),
        input_image: Some(2),
        output_audio: Some(3),
        reasoning: Some(2),
        ..call(9, 9)
    };
    // Per million: 4 * 1 + 3 * 10 + 2 * 100 + 4 * 2 + 3 * 1000 + 2 * 10000.
    let rates = Rates::of(&all, SpecialRates::default()).unwrap();
    check(&rates, usage, "0.023242", &[]);
}

#[test]
fn a_long_prompt_has_the_rates_of_its_tier_for_the_whole_request() {
    check(&sonnet(), call(200_000, 1000), "0.615", &[]);
    check(&sonnet(), call(200_001, 1000), "1.222506", &[]);
    // A kind that the tier has no rate for has the row's.
    let usage = Usage {
        cached: Some(100_000),
        cache_write: Some(100_000),
        ..call(200_001, 0)
    };
    check(&sonnet(), usage, "0.435006", &[]);
    let mut rates = sonnet();
    let mut special = *rates.special.take().unwrap();
    special
        .tiers
        .insert(0, tier(500_000, &[(RateKind::Input, "100")]));
    rates.special = special.boxed();
    check(&rates, call(300_000, 0), "1.8", &[]);
    check(&rates, call(500_001, 1), "50.000115", &[]);
}

#[test]
fn a_service_tier_multiplies_the_tokens_and_not_the_requests() {
    let usage = Usage {
        requests: Some(3),
        service_tier: "batch",
        ..call(1000, 1000)
    };
    check(&sonnet(), usage, "0.039", &[]);
    for standard in ["", "default", "STANDARD", "auto", "on_demand"] {
        let usage = Usage {
            service_tier: standard,
            ..usage
        };
        check(&sonnet(), usage, "0.048", &[]);
    }
    check(
        &sonnet(),
        Usage {
            service_tier: "BATCH",
            ..usage
        },
        "0.039",
        &[],
    );
    check(
        &sonnet(),
        Usage {
            service_tier: "priority",
            ..usage
        },
        "0.048",
        &["service_tier"],
    );
    // A total without its parts has the factor too.
    let total = Usage {
        prompt: None,
        total: Some(1000),
        ..usage
    };
    let charge = sonnet().charge(total);
    assert_eq!(charge.amount.to_string(), "0.031500000000000000");
    assert!(charge.is_estimated && charge.unpriced.is_empty());
}

#[test]
fn counts_beyond_reason_neither_overflow_nor_count_twice() {
    let dearest = kinds(&RateKind::ALL.map(|kind| (kind, "1000000")));
    let special = SpecialRates {
        request: Some(Rate::MAX),
        service_tiers: vec![ServiceTier {
            name: "x".into(),
            factor: Factor::MAX,
        }],
        ..SpecialRates::default()
    };
    let most = Some(u64::MAX);
    let usage = Usage {
        prompt: most,
        completion: most,
        cached: most,
        cache_write: most,
        cache_write_1h: most,
        input_audio: most,
        input_image: most,
        reasoning: most,
        output_audio: most,
        requests: most,
        service_tier: "x",
        ..Usage::default()
    };
    check(
        &Rates::of(&dearest, special).unwrap(),
        usage,
        "1000000000000",
        &[],
    );
    // The first kinds take all there is: nothing is left for the next.
    let usage = Usage {
        prompt: Some(10),
        completion: Some(10),
        ..usage
    };
    check(
        &plain("1", "1"),
        usage,
        "0.00002",
        &["cache_read", "output_audio", "request", "service_tier"],
    );
}

#[test]
fn equal_rates_are_equal_values() {
    let all = kinds(&[(RateKind::Input, "1"), (RateKind::Output, "2")]);
    assert_eq!(
        Rates::of(&all, SpecialRates::default()),
        Some(plain("1", "2"))
    );
    assert_eq!(
        Rates::of(&kinds(&[(RateKind::Input, "1")]), SpecialRates::default()),
        None
    );
    let tiers = |order: [u64; 2]| SpecialRates {
        tiers: order
            .map(|above| tier(above, &[(RateKind::Input, "1")]))
            .to_vec(),
        ..SpecialRates::default()
    };
    assert_eq!(tiers([1, 2]).boxed(), tiers([2, 1]).boxed());
    let rates = sonnet();
    for kind in RateKind::ALL {
        let special = rates.special.as_ref().unwrap();
        let is_special = special.kinds.get(kind).is_some();
        assert_eq!(
            is_special,
            matches!(kind, RateKind::CacheWrite | RateKind::CacheWrite1h)
        );
    }
    assert_eq!(rates.get(RateKind::CachedInput), Some(rate("0.3")));
    assert_eq!(rates.get(RateKind::CacheWrite), Some(rate("3.75")));
    assert_eq!(rates.get(RateKind::Reasoning), None);
}

fn any_rate() -> impl Strategy<Value = Rate> {
    (0i128..100_000_000_000_000).prop_map(|units| Rate::from_units(units).unwrap())
}

fn any_kinds() -> impl Strategy<Value = KindRates> {
    proptest::collection::vec((select(RateKind::ALL.to_vec()), any_rate()), 0..8)
        .prop_map(|rates| rates.into_iter().collect())
}

fn any_special() -> impl Strategy<Value = SpecialRates> {
    let tiers = proptest::collection::vec((0u64..40, any_kinds()), 0..3);
    let factors = proptest::collection::btree_map("[ab]", 0u32..3_000_000, 0..3);
    (proptest::option::of(any_rate()), tiers, factors).prop_map(|(request, tiers, factors)| {
        SpecialRates {
            kinds: KindRates::default(),
            request,
            tiers: tiers
                .into_iter()
                .map(|(above_input_tokens, rates)| RateTier {
                    above_input_tokens,
                    rates,
                })
                .collect(),
            service_tiers: factors
                .into_iter()
                .map(|(name, millionths)| ServiceTier {
                    name: name.into(),
                    factor: Factor::from_millionths(millionths).unwrap(),
                })
                .collect(),
        }
    })
}

fn any_usage() -> impl Strategy<Value = Usage<'static>> {
    let count = || proptest::option::weighted(0.6, 0u64..30);
    let prompt = [(); 6].map(|()| count());
    let others = [(); 5].map(|()| count());
    let tier = select(vec!["", "a", "b", "c", "standard", "A"]);
    (prompt, others, tier).prop_map(|(prompt, others, service_tier)| {
        let [
            prompt,
            cached,
            cache_write,
            cache_write_1h,
            input_audio,
            input_image,
        ] = prompt;
        let [completion, total, reasoning, output_audio, requests] = others;
        Usage {
            model: "m",
            prompt: prompt.map(|count| count * 3),
            completion: completion.map(|count| count * 2),
            total,
            cached,
            cache_write,
            cache_write_1h,
            input_audio,
            input_image,
            reasoning,
            output_audio,
            requests,
            service_tier,
            at_ms: 0,
        }
    })
}

/// The cost token by token: every token of a side is handed to the first kind that has any left to name.
fn token_by_token(rates: &Rates, usage: Usage<'_>) -> (Decimal, Vec<&'static str>) {
    let special = rates.special.clone().unwrap_or_default();
    let usd = |rate: Rate| Decimal::from_i128_with_scale(rate.units(), 18);
    let mut unpriced = Vec::new();
    let mut sum = Decimal::ZERO;
    if let (Some(prompt), Some(completion)) = (usage.prompt, usage.completion) {
        let above = |tier: &&RateTier| prompt > tier.above_input_tokens;
        let tiers = special.tiers.iter();
        // Of two tiers with one bound the later counts.
        let tier = tiers
            .filter(above)
            .max_by_key(|tier| tier.above_input_tokens);
        let own = |kind| match tier.and_then(|tier| tier.rates.get(kind)) {
            Some(rate) => Some(rate),
            None => rates.get(kind),
        };
        let sides = [
            (
                prompt,
                RateKind::Input,
                vec![
                    (usage.cached, RateKind::CachedInput, "cache_read"),
                    (usage.cache_write, RateKind::CacheWrite, "cache_write"),
                    (
                        usage.cache_write_1h,
                        RateKind::CacheWrite1h,
                        "cache_write_1h",
                    ),
                    (usage.input_audio, RateKind::InputAudio, "input_audio"),
                    (usage.input_image, RateKind::InputImage, "input_image"),
                ],
            ),
            (
                completion,
                RateKind::Output,
                vec![
                    (usage.output_audio, RateKind::OutputAudio, "output_audio"),
                    (usage.reasoning, RateKind::Reasoning, "reasoning"),
                ],
            ),
        ];
        for (tokens, plain, mut parts) in sides {
            for _ in 0..tokens {
                let part = parts.iter_mut().find(|(left, ..)| left.unwrap_or(0) > 0);
                let Some((left, kind, name)) = part else {
                    sum += usd(own(plain).unwrap());
                    continue;
                };
                *left = left.map(|left| left - 1);
                let rate = own(*kind);
                if rate.is_none() && *name != "reasoning" && !unpriced.contains(name) {
                    unpriced.push(name);
                }
                let instead = match *name {
                    "cache_write_1h" => own(RateKind::CacheWrite).or(own(plain)),
                    _ => own(plain),
                };
                sum += usd(rate.or(instead).unwrap());
            }
        }
    } else {
        let each = rates.total.unwrap_or(rates.input);
        sum = usd(each) * Decimal::from(usage.total.unwrap_or(0));
        // Which of these tokens are parts is not known, but a part without a rate is named.
        for (count, kind, name) in [
            (usage.cached, RateKind::CachedInput, "cache_read"),
            (usage.cache_write, RateKind::CacheWrite, "cache_write"),
            (
                usage.cache_write_1h,
                RateKind::CacheWrite1h,
                "cache_write_1h",
            ),
            (usage.input_audio, RateKind::InputAudio, "input_audio"),
            (usage.input_image, RateKind::InputImage, "input_image"),
            (usage.output_audio, RateKind::OutputAudio, "output_audio"),
        ] {
            if count.unwrap_or(0) > 0 && rates.get(kind).is_none() {
                unpriced.push(name);
            }
        }
    }
    let requests = usage.requests.unwrap_or(0);
    if requests > 0 && special.request.is_none() {
        unpriced.push("request");
    }
    if !matches!(usage.service_tier, "" | "standard") {
        let tiers = special.service_tiers.iter();
        let lower = usage.service_tier.to_lowercase();
        match tiers.rev().find(|tier| *tier.name == *lower) {
            Some(tier) => sum *= tier.factor.decimal(),
            None => unpriced.push("service_tier"),
        }
    }
    let away = rust_decimal::RoundingStrategy::MidpointAwayFromZero;
    let sum = sum.round_dp_with_strategy(18, away);
    (
        sum + usd(special.request.unwrap_or_default()) * Decimal::from(requests),
        unpriced,
    )
}

proptest! {
    #[test]
    fn a_charge_by_kinds_is_what_every_single_token_costs(
        base in (any_rate(), any_rate()),
        own in any_kinds(),
        special in any_special(),
        usage in any_usage(),
    ) {
        let mut all = own;
        all.set(RateKind::Input, Some(base.0));
        all.set(RateKind::Output, Some(base.1));
        let rates = Rates::of(&all, special).unwrap();
        let charge = rates.charge(usage);
        let (amount, unpriced) = token_by_token(&rates, usage);
        prop_assert_eq!(charge.amount, amount);
        prop_assert_eq!(charge.unpriced.names().collect::<Vec<_>>(), unpriced);
    }

    #[test]
    fn an_event_with_only_prompt_completion_and_total_costs_what_it_did_before(
        base in (any_rate(), any_rate()),
        own in any_kinds(),
        special in any_special(),
        counts in [(); 3].map(|()| proptest::option::of(0u64..1 << 40)),
    ) {
        let [prompt, completion, total] = counts;
        let usage = Usage { prompt, completion, total, ..Usage::default() };
        let rates = Rates { input: base.0, output: base.1, total: own.get(RateKind::Total), ..Rates::default() };
        // The formula of the interface, 6.3.
        let (units, is_estimated) = match (prompt, completion) {
            (Some(prompt), Some(completion)) => {
                (base.0.times(prompt) + base.1.times(completion), false)
            }
            _ => (rates.total.unwrap_or(base.0).times(total.unwrap_or(0)), rates.total.is_none()),
        };
        let expected = Charge { amount: dollars(units), is_estimated, unpriced: UnpricedKinds::default() };
        prop_assert_eq!(rates.charge(usage), expected);
        // Rates for other kinds and for services change nothing.
        let special = SpecialRates { kinds: own, tiers: Vec::new(), ..special };
        let rates = Rates { special: special.boxed(), ..rates };
        prop_assert_eq!(rates.charge(usage), expected);
    }
}
