use proptest::prelude::*;

use super::rate::Rate;
use super::*;

fn rate(per_1m: &str) -> Rate {
    Rate::read(per_1m, rate::Per::Million).unwrap()
}

fn row(model: &str, per_1m: [&str; 2]) -> PriceRow {
    PriceRow {
        key: PriceKey {
            model: model.to_owned(),
            is_prefix: false,
            effective_from: None,
        },
        rates: Rates {
            input: rate(per_1m[0]),
            output: rate(per_1m[1]),
            cached_input: None,
            total: None,
            special: None,
        },
    }
}

fn prefix(model: &str, per_1m: [&str; 2]) -> PriceRow {
    let mut row = row(model, per_1m);
    row.key.is_prefix = true;
    row
}

fn from(mut row: PriceRow, from_ms: UnixMs) -> PriceRow {
    row.key.effective_from = Some(from_ms);
    row
}

fn cached(mut row: PriceRow, per_1m: &str) -> PriceRow {
    row.rates.cached_input = Some(rate(per_1m));
    row
}

fn usage(model: &str) -> Usage<'_> {
    Usage {
        model,
        at_ms: 1_000,
        ..Usage::default()
    }
}

fn costs(table: &PriceTable, usage: Usage<'_>) -> String {
    let charge = table.charge(usage).unwrap().charge;
    let guess = if charge.is_estimated {
        " estimated"
    } else {
        ""
    };
    format!("{}{guess}", charge.amount.normalize())
}

/// 2.5 USD for a million input tokens, 10 for output, 1.25 for cached input.
fn omni() -> PriceTable {
    PriceTable::new([cached(row("omni", ["2.5", "10"]), "1.25")])
}

#[test]
fn openai_counts_cached_inside_the_prompt_and_reasoning_inside_the_completion() {
    // usage: {prompt_tokens: 2006, completion_tokens: 300, total_tokens: 2306,
    //   prompt_tokens_details: {cached_tokens: 1920}, completion_tokens_details: {reasoning_tokens: 256}}
    let call = Usage {
        prompt: Some(2006),
        completion: Some(300),
        total: Some(2306),
        cached: Some(1920),
        ..usage("omni")
    };
    // 86 * 2.5 + 1920 * 1.25 + 300 * 10, per million.
    assert_eq!(costs(&omni(), call), "0.005615");
}

#[test]
fn anthropic_counts_cached_beside_the_input_so_the_prompt_is_their_sum() {
    // usage: {input_tokens: 50, cache_read_input_tokens: 10000, cache_creation_input_tokens: 0, output_tokens: 503}
    let (input, cache_read, output) = (50, 10_000, 503);
    let table = PriceTable::new([cached(row("sonnet", ["3", "15"]), "0.3")]);
    let call = Usage {
        prompt: Some(input + cache_read),
        completion: Some(output),
        cached: Some(cache_read),
        ..usage("sonnet")
    };
    // 50 * 3 + 10000 * 0.3 + 503 * 15, per million.
    assert_eq!(costs(&table, call), "0.010695");
}

#[test]
fn gemini_counts_thoughts_beside_the_candidates_so_the_completion_is_their_sum() {
    // usageMetadata: {promptTokenCount: 1000, cachedContentTokenCount: 400, candidatesTokenCount: 20,
    //   thoughtsTokenCount: 80, totalTokenCount: 1100}
    let table = PriceTable::new([cached(row("flash", ["0.3", "2.5"]), "0.03")]);
    let call = Usage {
        prompt: Some(1000),
        completion: Some(20 + 80),
        total: Some(1100),
        cached: Some(400),
        ..usage("flash")
    };
    // 600 * 0.3 + 400 * 0.03 + 100 * 2.5, per million.
    assert_eq!(costs(&table, call), "0.000442");
}

#[test]
fn only_totals_cost_the_total_rate_or_an_estimate_at_the_input_rate() {
    let call = Usage {
        total: Some(1000),
        cached: Some(900),
        ..usage("omni")
    };
    assert_eq!(costs(&omni(), call), "0.0025 estimated");
    // A completion alone is no split.
    let half = Usage {
        completion: Some(400),
        ..call
    };
    assert_eq!(costs(&omni(), half), "0.0025 estimated");
    let mut blended = row("omni", ["2.5", "10"]);
    blended.rates.total = Some(rate("4"));
    let blended = PriceTable::new([blended]);
    assert_eq!(costs(&blended, call), "0.004");
    let split = Usage {
        prompt: Some(600),
        completion: Some(400),
        cached: None,
        ..call
    };
    assert_eq!(costs(&blended, split), "0.0055");
}

#[test]
fn cached_tokens_are_never_more_than_the_prompt_and_cost_its_rate_without_one_of_their_own() {
    let call = Usage {
        prompt: Some(100),
        completion: Some(0),
        cached: Some(1_000_000),
        ..usage("omni")
    };
    assert_eq!(costs(&omni(), call), "0.000125");
    let without = PriceTable::new([row("omni", ["2.5", "10"])]);
    assert_eq!(costs(&without, call), "0.00025");
}

#[test]
fn the_exact_name_wins_then_the_longest_beginning() {
    let table = PriceTable::new([
        prefix("gpt-4o", ["2", "0"]),
        prefix("gpt-4o-mini", ["3", "0"]),
        row("gpt-4o-mini", ["4", "0"]),
        prefix("gpt-4", ["1", "0"]),
        row("gpt-4", ["5", "0"]),
        prefix("gpt-4o-mini-2024-07-18-x", ["9", "0"]),
    ]);
    for (model, expected) in [
        ("gpt-4o-2024-08-06", Some("2")),
        ("gpt-4o", Some("2")),
        ("gpt-4o-mini", Some("4")),
        ("gpt-4o-mini-2024-07-18", Some("3")),
        ("gpt-4", Some("5")),
        ("gpt-4-turbo", Some("1")),
        ("gpt-4n", Some("1")),
        ("gpt-3.5", None),
        ("GPT-4o", None),
        ("", None),
    ] {
        let found = table.rates(model, 0).map(|rates| rates.input);
        assert_eq!(found, expected.map(rate), "{model}");
    }
    assert!(!table.is_empty() && PriceTable::default().is_empty());
}

#[test]
fn the_row_in_force_at_the_start_counts_and_the_next_best_name_before_that() {
    let table = PriceTable::new([
        row("m", ["1", "0"]),
        from(row("m", ["2", "0"]), 100),
        from(row("m", ["3", "0"]), 200),
        from(row("n-1", ["5", "0"]), 100),
        from(prefix("n-", ["6", "0"]), 50),
        prefix("n", ["7", "0"]),
    ]);
    for (model, at_ms, expected) in [
        ("m", -1, "1"),
        ("m", 99, "1"),
        ("m", 100, "2"),
        ("m", 199, "2"),
        ("m", 200, "3"),
        ("m", UnixMs::MAX, "3"),
        ("n-1", 100, "5"),
        ("n-1", 99, "6"),
        ("n-1", 49, "7"),
    ] {
        let found = table.rates(model, at_ms).map(|rates| rates.input);
        assert_eq!(found, Some(rate(expected)), "{model} at {at_ms}");
    }
}

#[test]
fn of_two_rows_with_one_key_the_later_counts() {
    let table = PriceTable::new([row("m", ["1", "0"]), row("m", ["2", "0"])]);
    assert_eq!(
        table.rates("m", 0).map(|rates| rates.input),
        Some(rate("2"))
    );
}

#[test]
fn token_counts_beyond_reason_cost_the_most_there_is() {
    let dearest = PriceTable::new([row("m", ["1000000", "1000000"])]);
    let call = Usage {
        prompt: Some(u64::MAX),
        completion: Some(u64::MAX),
        ..usage("m")
    };
    assert_eq!(costs(&dearest, call), "1000000000000");
    // The bound on counts, 2^53, at a real price with a real number of digits is exact.
    let table = PriceTable::new([row("m", ["15.000001", "0"])]);
    let call = Usage {
        prompt: Some(1 << 53),
        completion: Some(0),
        ..usage("m")
    };
    assert_eq!(costs(&table, call), "135107997828.314134740992");
}

/// Names that are often prefixes of each other.
fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[ab]{0,5}", "[abä]{0,3}-[ab]{0,2}"]
}

fn any_rate() -> impl Strategy<Value = Rate> {
    let units = prop_oneof![
        0i128..1_000,
        0i128..=100_000_000_000_000,
        0i128..=1_000_000_000_000_000_000
    ];
    units.prop_map(|units| Rate::from_units(units).unwrap())
}

fn any_row() -> impl Strategy<Value = PriceRow> {
    let key = (name(), any::<bool>(), proptest::option::of(0..5i64));
    let optional = || proptest::option::of(any_rate());
    (key, any_rate(), any_rate(), optional(), optional()).prop_map(
        |((model, is_prefix, effective_from), input, output, cached_input, total)| PriceRow {
            key: PriceKey {
                model,
                is_prefix,
                effective_from,
            },
            rates: Rates {
                input,
                output,
                cached_input,
                total,
                special: None,
            },
        },
    )
}

/// The row for a model, found by linear search.
fn plainly<'a>(rows: &'a [PriceRow], model: &str, at_ms: UnixMs) -> Option<&'a PriceRow> {
    let fits = |key: &PriceKey| match key.is_prefix {
        true => model.starts_with(&key.model),
        false => model == key.model,
    };
    rows.iter()
        .enumerate()
        .filter(|(_, row)| {
            fits(&row.key) && row.key.effective_from.is_none_or(|from| from <= at_ms)
        })
        .max_by_key(|(at, row)| {
            let key = &row.key;
            (!key.is_prefix, key.model.len(), key.effective_from, *at)
        })
        .map(|(_, row)| row)
}

/// The charge by school arithmetic: numerators over 10^18, as text.
fn reckoned(rates: &Rates, usage: Usage<'_>) -> (u128, bool) {
    let product = |rate: Rate, tokens: u64| rate.units() as u128 * tokens as u128;
    match (usage.prompt, usage.completion) {
        (Some(prompt), Some(completion)) => {
            let from_cache = std::cmp::min(usage.cached.unwrap_or_default(), prompt);
            let fresh = prompt - from_cache;
            let cached_rate = match rates.cached_input {
                Some(rate) => rate,
                None => rates.input,
            };
            let prompt = product(rates.input, fresh) + product(cached_rate, from_cache);
            (prompt + product(rates.output, completion), false)
        }
        _ => match rates.total {
            Some(rate) => (product(rate, usage.total.unwrap_or_default()), false),
            None => (product(rates.input, usage.total.unwrap_or_default()), true),
        },
    }
}

proptest! {
    #[test]
    fn a_look_up_finds_what_looking_at_every_row_finds(
        rows in proptest::collection::vec(any_row(), 0..40),
        model in name(),
        at_ms in -1..6i64,
    ) {
        let table = PriceTable::new(rows.clone());
        let expected = plainly(&rows, &model, at_ms).map(|row| &row.rates);
        prop_assert_eq!(table.rates(&model, at_ms), expected);
    }

    #[test]
    fn a_charge_is_the_sum_of_its_parts_to_the_last_digit(
        row in any_row(),
        prompt in proptest::option::of(0u64..1 << 53),
        completion in proptest::option::of(0u64..1 << 30),
        total in proptest::option::of(0u64..1 << 53),
        cached in proptest::option::of(0u64..1 << 53),
    ) {
        let call = Usage {
            model: &row.key.model, prompt, completion, total, cached, at_ms: 10, ..Usage::default()
        };
        let table = PriceTable::new([row.clone()]);
        let priced = table.charge(call).unwrap();
        prop_assert_eq!(priced.row, &row.key);
        let charge = priced.charge;
        let (units, is_estimated) = reckoned(&row.rates, call);
        prop_assert_eq!(charge.is_estimated, is_estimated);
        let missing = SCALE - charge.amount.scale();
        let charged = charge.amount.mantissa() as u128 * 10u128.pow(missing);
        if units < 1 << 96 {
            prop_assert_eq!(charged, units);
        } else {
            let bounded = units.min(AMOUNT_MAX);
            prop_assert!(charged.abs_diff(bounded) <= 50, "{} for {}", charged, units);
        }
    }
}
