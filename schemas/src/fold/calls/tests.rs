use proptest::prelude::*;
use rust_decimal::Decimal;
use serde_json::{Value, json};

use crate::event::UsageParts;
use crate::fold::tests::fold;
use crate::fold::{CostStatus, RunState};
use crate::price::kinds::RateKind;
use crate::price::{PriceKey, PriceRow, PriceTable, Rates, SpecialRates, rate};

const NOW_MS: i64 = 1_795_185_741_941;

/// One model at 1 USD a million tokens of prompt, 3 of those written to a cache, 2 of completion.
fn prices() -> PriceTable {
    let rate = |per_million| rate::Rate::read(per_million, rate::Per::Million).unwrap();
    PriceTable::new([PriceRow {
        key: PriceKey {
            model: "m1".to_owned(),
            is_prefix: false,
            effective_from: None,
        },
        rates: Rates {
            input: rate("1"),
            output: rate("2"),
            special: SpecialRates {
                kinds: [(RateKind::CacheWrite, rate("3"))].into_iter().collect(),
                ..SpecialRates::default()
            }
            .boxed(),
            ..Rates::default()
        },
    }])
}

fn event(name: &str, at: i64, fields: Value) -> String {
    let mut event = json!({"name": name, "run_id": "r", "timestamp": NOW_MS + at});
    for (key, value) in fields.as_object().unwrap() {
        event[key] = value.clone();
    }
    event.to_string()
}

fn llm(name: &str, at: i64, prompt: u64, completion: u64) -> String {
    let tokens = json!({"type": "llm", "model": "m1", "prompt_tokens": prompt, "completion_tokens": completion});
    event(name, at, tokens)
}

/// Millionths of a dollar, tokens in all, calls.
fn figures(texts: &[String]) -> (String, Option<u64>, u64) {
    let state = fold(texts);
    let stored = RunState::decode(&state.encode().unwrap(), state.previews()).unwrap();
    assert_eq!(stored, state);
    let usage = state.usage();
    let millionths = state.cost(&prices()).amount * Decimal::from(1_000_000);
    (
        millionths.normalize().to_string(),
        usage.tokens.total,
        usage.calls,
    )
}

#[test]
fn two_one_shot_calls_under_one_run_both_cost() {
    let calls = [llm("llm_call", 0, 10, 1), llm("llm_call", 1, 20, 2)];
    assert_eq!(figures(&calls), ("36".to_owned(), Some(33), 2));
}

#[test]
fn a_call_reported_under_the_run_of_an_agent_costs() {
    let start = event("agent_start", 0, json!({"type": "agent"}));
    let end = event(
        "agent_end",
        9,
        json!({"type": "agent", "total_tokens": 999}),
    );
    let calls = [start, llm("llm_call", 1, 10, 1), end];
    assert_eq!(figures(&calls), ("12".to_owned(), Some(11), 1));
    assert_eq!(
        fold(&calls).cost(&prices()).status,
        CostStatus::Priced,
        "the type of the run says nothing about its calls"
    );
    assert_eq!(fold(&calls).kind(), "agent");
}

#[test]
fn a_start_and_an_end_are_one_call_whose_parts_complete_each_other() {
    let start = event(
        "llm_start",
        0,
        json!({"type": "llm", "model": "m1", "prompt_tokens": 10}),
    );
    let ends = [
        json!({"type": "llm", "prompt_tokens": 10, "completion_tokens": 1}),
        json!({"prompt_tokens": 10, "completion_tokens": 1}),
        json!({"type": "llm", "completion_tokens": 1}),
    ];
    for end in ends {
        let pair = [start.clone(), event("llm_end", 5, end)];
        assert_eq!(figures(&pair), ("12".to_owned(), Some(11), 1));
    }
    let with_both = [llm("llm_start", 0, 10, 1), llm("llm_end", 5, 10, 1)];
    assert_eq!(figures(&with_both), ("12".to_owned(), Some(11), 1));
}

#[test]
fn pairs_under_one_run_are_a_call_each_and_one_without_a_model_has_the_runs() {
    let start = |at| event("llm_start", at, json!({"type": "llm", "model": "m1"}));
    let end = |at, prompt: u64| {
        let tokens = json!({"type": "llm", "prompt_tokens": prompt, "completion_tokens": 0});
        event("llm_end", at, tokens)
    };
    let pairs = [start(0), end(1, 10), start(2), end(3, 30)];
    assert_eq!(figures(&pairs), ("40".to_owned(), Some(40), 2));
}

#[test]
fn a_sum_says_why_it_is_what_it_is() {
    let unpriced = event(
        "llm_call",
        5,
        json!({"type": "llm", "model": "m2", "total_tokens": 7}),
    );
    let provided = event("llm_call", 6, json!({"type": "llm", "cost": 0.5}));
    let status = |texts: &[&String]| fold(texts.iter().copied()).cost(&prices()).status;
    let priced = llm("llm_call", 0, 10, 1);
    assert_eq!(status(&[&priced, &unpriced]), CostStatus::Priced);
    assert_eq!(status(&[&provided, &unpriced]), CostStatus::Priced);
    let twice = [&provided, &event("llm_call", 8, json!({"cost": 0.25}))].map(Clone::clone);
    let cost = fold(&twice).cost(&prices());
    assert_eq!(cost.status, CostStatus::Provided);
    assert_eq!(cost.amount.to_string(), "0.75");
}

#[test]
fn a_cost_that_the_client_estimated_counts_only_without_a_price() {
    let call = |model: &str| {
        let fields = json!({"type": "llm", "model": model, "prompt_tokens": 10, "completion_tokens": 1,
            "estimated_cost": 0.5});
        event("llm_call", 0, fields)
    };
    let cost = |text: String| {
        let cost = fold([&text]).cost(&prices());
        (cost.status, cost.amount.normalize().to_string())
    };
    assert_eq!(
        cost(call("m1")),
        (CostStatus::Priced, "0.000012".to_owned())
    );
    assert_eq!(cost(call("m2")), (CostStatus::Provided, "0.5".to_owned()));
    let alone = event(
        "llm_call",
        0,
        json!({"type": "llm", "estimated_cost": 0.25}),
    );
    assert_eq!(cost(alone), (CostStatus::Provided, "0.25".to_owned()));
}

#[test]
fn usage_without_a_rate_is_named_also_in_a_sum() {
    let audio = json!({"type": "llm", "model": "m1", "prompt_tokens": 10, "completion_tokens": 1,
        "input_audio_tokens": 4});
    let one = event("llm_call", 0, audio);
    let written = json!({"type": "llm", "model": "m1", "prompt_tokens": 10, "completion_tokens": 1,
        "cache_write_tokens": 4, "cached_tokens": 2});
    let other = event("llm_call", 1, written);
    let named = |texts: &[&String]| {
        let cost = fold(texts.iter().copied()).cost(&prices());
        let names: Vec<&str> = cost.unpriced.names().collect();
        (cost.status, names)
    };
    assert_eq!(
        named(&[&one]),
        (CostStatus::PartlyPriced, vec!["input_audio"])
    );
    assert_eq!(
        named(&[&other]),
        (CostStatus::PartlyPriced, vec!["cache_read"])
    );
    assert_eq!(
        named(&[&one, &other]),
        (CostStatus::PartlyPriced, vec!["cache_read", "input_audio"])
    );
    let free = llm("llm_call", 2, 10, 1);
    assert_eq!(named(&[&free]), (CostStatus::Priced, vec![]));
    assert_eq!(named(&[&one, &free]).0, CostStatus::PartlyPriced);
}

#[test]
fn several_calls_keep_their_details_over_what_is_stored() {
    let call = |at: i64, fields: Value| {
        let mut all =
            json!({"type": "llm", "model": "m1", "prompt_tokens": 100, "completion_tokens": 10});
        for (key, value) in fields.as_object().unwrap() {
            all[key] = value.clone();
        }
        event("llm_call", at, all)
    };
    let state = fold(&[
        call(
            0,
            json!({"cache_write_tokens": 1, "cache_write_1h_tokens": 2, "input_audio_tokens": 3,
            "input_image_tokens": 4, "output_audio_tokens": 5, "requests": 6, "service_tier": "batch", "ttft_ms": 70}),
        ),
        call(
            1,
            json!({"cache_write_tokens": 10, "service_tier": "batch", "estimated_cost": 0.5}),
        ),
        call(2, json!({})),
    ]);
    let stored = RunState::decode(&state.encode().unwrap(), state.previews()).unwrap();
    assert_eq!(stored, state);
    let table = prices();
    let calls = stored.model_calls(&table);
    let details: Vec<_> = calls
        .iter()
        .map(|call| (call.parts.cache_write, call.service_tier, call.ttft_ms))
        .collect();
    assert_eq!(
        details,
        [
            (Some(1), "batch", Some(70)),
            (Some(10), "batch", None),
            (None, "", None)
        ]
    );
    let parts = stored.usage().parts;
    assert_eq!(
        parts,
        UsageParts {
            cache_write: Some(11),
            cache_write_1h: Some(2),
            input_audio: Some(3),
            input_image: Some(4),
            output_audio: Some(5),
            requests: Some(6),
        }
    );
}

#[test]
fn ordinary_runs_keep_the_bytes_that_earlier_versions_read() {
    let start = event("llm_start", 0, json!({"type": "llm"}));
    let pair = fold([&start, &llm("llm_end", 5, 10, 1)]);
    assert_eq!(pair.encode().unwrap()[0], 1);
    let several = fold([&llm("llm_call", 0, 1, 1), &llm("llm_call", 5, 10, 1)]);
    assert_eq!(several.encode().unwrap()[0], 3);
}

#[test]
fn a_hundred_thousand_calls_are_summed_exactly_in_any_order_p2() {
    let mut state = RunState::default();
    let mut backwards = RunState::default();
    let texts: Vec<String> = (0..100_000u64)
        .map(|number| llm("llm_call", (number % 1000) as i64, number, 1))
        .collect();
    for (text, other) in texts.iter().zip(texts.iter().rev()) {
        state.join(fold([text]));
        backwards.join(fold([other]));
        backwards.join(fold([other]));
    }
    assert_eq!(state, backwards);
    let usage = state.usage();
    assert_eq!(usage.calls, 100_000);
    assert_eq!(usage.tokens.prompt, Some(100_000 * 99_999 / 2));
    assert_eq!(
        (state.cost(&prices()).amount * Decimal::from(1_000_000)).normalize(),
        Decimal::from(100_000u64 * 99_999 / 2 + 200_000)
    );
    let bytes = state.encode().unwrap();
    assert!(bytes.len() < 25 * 100_000, "{} bytes of state", bytes.len());
    assert_eq!(RunState::decode(&bytes, state.previews()).unwrap(), state);
}

#[test]
fn the_earliest_calls_up_to_a_weight_are_kept_in_any_order_x1_p2() {
    let model = |number: usize| format!("{number:0>500}");
    let texts: Vec<String> = (0..10_000)
        .map(|number| {
            let fields = json!({"type": "llm", "model": model(number), "total_tokens": 1});
            event("llm_call", number as i64, fields)
        })
        .collect();
    let state = fold(&texts);
    assert_eq!(state, fold(texts.iter().rev()));
    let mut joined = fold(&texts[5_000..]);
    joined.join(fold(&texts[..5_000]));
    joined.join(fold(&texts[9_000..]));
    assert_eq!(state, joined);
    let kept = super::RUN_CALLS_BYTES / 532;
    assert_eq!(state.usage().calls, kept as u64);
    let bytes = state.encode().unwrap().len();
    assert!(bytes <= super::RUN_CALLS_BYTES + 4096, "{bytes}");
    // A name that is used again is free.
    let again = event(
        "llm_call",
        3,
        json!({"type": "llm", "model": model(0), "total_tokens": 2}),
    );
    let mut more = state.clone();
    more.join(fold([&again]));
    assert!((kept as u64 - 1..=kept as u64 + 1).contains(&more.usage().calls));
}

/// An event of a run, as its client reports it and as the plain rules see it.
#[derive(Clone, Debug)]
struct Reported {
    name: &'static str,
    at: i64,
    kind: Option<&'static str>,
    model: Option<&'static str>,
    prompt: Option<u64>,
    completion: Option<u64>,
    cost: Option<u64>,
    written: Option<u64>,
    estimated: Option<u64>,
}

fn any_reported() -> impl Strategy<Value = Reported> {
    (
        proptest::sample::select(vec!["llm_start", "llm_end", "llm_call", "step"]),
        0i64..6,
        proptest::sample::select(vec![None, Some("llm"), Some("llm"), Some("agent")]),
        proptest::sample::select(vec![None, Some("m1"), Some("m2")]),
        proptest::option::of(0u64..100),
        proptest::option::of(0u64..100),
        proptest::sample::select(vec![None, None, Some(250u64)]),
        proptest::sample::select(vec![None, None, Some(40u64)]),
        proptest::sample::select(vec![None, None, Some(777u64)]),
    )
        .prop_map(
            |(name, at, kind, model, prompt, completion, cost, written, estimated)| Reported {
                name,
                at,
                kind,
                model,
                prompt,
                completion,
                cost,
                written,
                estimated,
            },
        )
}

impl Reported {
    /// `number` tells events of the same content apart and orders events of one time.
    fn text(&self, number: usize) -> String {
        let dollars = |amount: Option<u64>| amount.map(|millionths| millionths as f64 / 1e6);
        let fields = json!({"type": self.kind, "model": self.model, "prompt_tokens": self.prompt,
            "completion_tokens": self.completion, "cost": dollars(self.cost), "step": number,
            "cache_write_tokens": self.written, "estimated_cost": dollars(self.estimated),
            "service_tier": self.written.map(|_| "default"), "ttft_ms": self.estimated});
        event(self.name, self.at * 100 + number as i64, fields)
    }
}

/// Millionths of a dollar, tokens in all and calls of a run with two calls at least, by the rules written plainly.
/// `None` where the run has fewer.
fn plainly(events: &[Reported]) -> Option<(u64, u64, u64)> {
    let mut ordered: Vec<(i64, &Reported)> = events
        .iter()
        .enumerate()
        .map(|(number, event)| (event.at * 100 + number as i64, event))
        .collect();
    ordered.sort_by_key(|(at, _)| *at);
    let run_type = ordered.iter().find_map(|(_, event)| event.kind);
    let run_model = ordered.iter().rev().find_map(|(_, event)| event.model);
    let calls: Vec<&Reported> = ordered
        .iter()
        .map(|(_, event)| *event)
        .filter(|event| event.name != "llm_start")
        .filter(|event| {
            let has_both = event.prompt.is_some() && event.completion.is_some();
            event.cost.is_some() || event.estimated.is_some() || has_both
        })
        .filter(|event| event.kind.or(run_type) == Some("llm"))
        .collect();
    let cost = |event: &Reported| match (event.cost, event.model.or(run_model)) {
        (Some(given), _) => given,
        (None, Some("m1")) if event.prompt.is_some() && event.completion.is_some() => {
            let prompt = event.prompt.unwrap();
            let written = event.written.unwrap_or(0).min(prompt);
            prompt - written + 3 * written + 2 * event.completion.unwrap()
        }
        (None, _) => event.estimated.unwrap_or(0),
    };
    let tokens = |event: &Reported| event.prompt.unwrap_or(0) + event.completion.unwrap_or(0);
    (calls.len() > 1).then(|| {
        (
            calls.iter().map(|event| cost(event)).sum(),
            calls.iter().map(|event| tokens(event)).sum(),
            calls.len() as u64,
        )
    })
}

proptest! {
    #[test]
    fn the_sums_agree_with_the_rules_written_plainly(
        events in proptest::collection::vec(any_reported(), 0..9)
            .prop_filter_map("has several calls", |events| {
                let sums = plainly(&events)?;
                Some((events, sums))
            })
    ) {
        let (events, (cost, tokens, calls)) = events;
        let texts: Vec<String> =
            events.iter().enumerate().map(|(number, event)| event.text(number)).collect();
        let (amount, total, number) = figures(&texts);
        prop_assert_eq!((amount, total.unwrap_or(0), number), (cost.to_string(), tokens, calls));
    }
}
