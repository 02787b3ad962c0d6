use super::*;

fn read(json: &str) -> Result<PriceRow, String> {
    let written: WrittenPrice = serde_json::from_str(json).map_err(|error| error.to_string())?;
    written.row("m").map_err(|fault| fault.to_string())
}

#[test]
fn per_thousand_and_per_million_mean_the_same_row() {
    let thousand = read(
        r#"{"input_per_1k": 0.0025, "output_per_1k": 0.01, "cached_input_per_1k": 1.25e-3, "prefix": true}"#,
    );
    let million = read(
        r#"{"input_per_1m": 2.5, "output_per_1m": 10.0, "cached_input_per_1m": 1.25, "prefix": true, "total_per_1m": null}"#,
    );
    assert_eq!(thousand, million);
    let row = thousand.unwrap();
    assert!(row.key.is_prefix && row.key.effective_from.is_none());
    assert_eq!(row.rates.output.units(), 10_000_000_000_000);
}

#[test]
fn digits_that_a_float_would_lose_are_kept() {
    let row = read(r#"{"input_per_1k": 999.999999999999999, "output_per_1k": 0.000000000000001}"#)
        .unwrap();
    assert_eq!(row.rates.input.units(), 999_999_999_999_999_999);
    assert_eq!(row.rates.output.units(), 1);
}

#[test]
fn a_date_means_its_first_moment() {
    let from = |text: &str| {
        let json =
            format!(r#"{{"input_per_1m": 1, "output_per_1m": 1, "effective_from": "{text}"}}"#);
        read(&json).map(|row| row.key.effective_from)
    };
    let expected = Ok(Some(1_795_132_800_000));
    assert_eq!(from("2026-11-20"), expected);
    assert_eq!(from("2026-11-20T00:00:00Z"), expected);
    assert_eq!(from("2026-11-20T02:00:00+02:00"), expected);
    for refused in ["", "soon", "1999-12-31", "2200-01-01", "2026-13-01"] {
        assert!(
            from(refused).unwrap_err().contains("effective_from"),
            "{refused}"
        );
    }
}

#[test]
fn what_does_not_fit_is_named() {
    for (json, named) in [
        ("{}", "`input_per_1m` is required"),
        (r#"{"input_per_1k": 1}"#, "`output_per_1k` is required"),
        (
            r#"{"input_per_1k": 1, "output_per_1m": 1}"#,
            "`input_per_1k` and `output_per_1m`",
        ),
        (
            r#"{"input_per_1k": -1, "output_per_1k": 1}"#,
            "`input_per_1k` must not be negative",
        ),
        (
            r#"{"input_per_1k": "1", "output_per_1k": 1}"#,
            "`input_per_1k` has to be a number",
        ),
        (
            r#"{"input_per_1k": 1e999, "output_per_1k": 1}"#,
            "at most 1 USD per token",
        ),
        (
            r#"{"input_per_1m": 1, "output_per_1m": 1e-13}"#,
            "`output_per_1m` has more digits",
        ),
        (
            r#"{"input_per_1m": 1, "output_per_1m": 1, "colour": 1}"#,
            "colour",
        ),
        (r#"{"input_per_1m": NaN, "output_per_1m": 1}"#, "expected"),
    ] {
        let message = read(json).unwrap_err();
        assert!(message.contains(named), "{json}: {message}");
    }
    assert_eq!(WrittenPrice::default().row(""), Err(PriceFault::Model));
    assert_eq!(
        WrittenPrice::default().row(&"x".repeat(NAME_BYTES + 1)),
        Err(PriceFault::Model)
    );
}

#[test]
fn every_kind_a_request_and_both_sorts_of_tiers_are_read() {
    let million = read(
        r#"{"input_per_1m": 3, "output_per_1m": 15, "cache_write_per_1m": 3.75, "cache_write_1h_per_1m": 6,
            "input_audio_per_1m": 7, "input_image_per_1m": 8, "output_audio_per_1m": 9, "reasoning_per_1m": 10,
            "request": 0.01, "service_tiers": {"priority": 2, "batch": 0.5},
            "tiers": [{"above_input_tokens": 500000, "input_per_1m": 9},
                      {"above_input_tokens": 200000, "input_per_1m": 6, "cached_input_per_1m": 0.6}]}"#,
    )
    .unwrap();
    let thousand = read(
        r#"{"input_per_1k": 0.003, "output_per_1k": 0.015, "cache_write_per_1k": 0.00375,
            "cache_write_1h_per_1k": 0.006, "input_audio_per_1k": 0.007, "input_image_per_1k": 0.008,
            "output_audio_per_1k": 0.009, "reasoning_per_1k": 0.01, "cached_input_per_1k": null,
            "request": 1e-2, "service_tiers": {"batch": 5e-1, "priority": 2.0},
            "tiers": [{"above_input_tokens": 200000, "cached_input_per_1k": 0.0006, "input_per_1k": 0.006},
                      {"above_input_tokens": 500000, "input_per_1k": 0.009}]}"#,
    );
    assert_eq!(thousand.as_ref(), Ok(&million));
    let special = million.rates.special.as_ref().unwrap();
    let shown: Vec<String> = special
        .kinds
        .iter()
        .map(|(kind, rate)| format!("{} {}", kind.name(), rate.per(Per::Million)))
        .collect();
    let expected = [
        "cache_write 3.75",
        "cache_write_1h 6",
        "input_audio 7",
        "input_image 8",
        "output_audio 9",
        "reasoning 10",
    ];
    assert_eq!(shown, expected);
    assert_eq!(special.request, Rate::read("10000", Per::Million).ok());
    let above = special.tiers.iter().map(|tier| tier.above_input_tokens);
    assert_eq!(above.collect::<Vec<_>>(), [200_000, 500_000]);
    let factors = special
        .service_tiers
        .iter()
        .map(|tier| format!("{} {}", tier.name, tier.factor));
    assert_eq!(factors.collect::<Vec<_>>(), ["batch 0.5", "priority 2"]);
    let plain = read(
        r#"{"input_per_1m": 3, "output_per_1m": 15, "tiers": [], "service_tiers": {}, "request": null}"#,
    );
    assert_eq!(plain.unwrap().rates.special, None);
}

#[test]
fn what_does_not_fit_in_tiers_is_named() {
    let long = "x".repeat(SERVICE_TIER_BYTES + 1);
    let many: Vec<String> = (0..=TIERS_MAX).map(|at| format!(r#""t{at}": 1"#)).collect();
    for (fields, named) in [
        (r#""request": -1"#.to_owned(), "`request` must not be negative"),
        (r#""reasoning_per_1k": 1"#.to_owned(), "`reasoning_per_1k` and `input_per_1m`"),
        (r#""tiers": 1"#.to_owned(), "`tiers`"),
        (r#""tiers": [{"input_per_1m": 1}]"#.to_owned(), "`tiers[0]`: `above_input_tokens` is required"),
        (r#""tiers": [{"above_input_tokens": 1.5}]"#.to_owned(), "`tiers[0]`: `above_input_tokens`"),
        (r#""tiers": [{"above_input_tokens": 0, "input_per_1m": 1}]"#.to_owned(), "`tiers[0].above_input_tokens`"),
        (r#""tiers": [{"above_input_tokens": 1}]"#.to_owned(), "`tiers[0]` has no rate"),
        (
            r#""tiers": [{"above_input_tokens": 1, "input_per_1m": 1}, {"above_input_tokens": 1, "input_per_1m": 1}]"#
                .to_owned(),
            "`tiers[1].above_input_tokens`",
        ),
        (r#""tiers": [{"above_input_tokens": 1, "colour": 1}]"#.to_owned(), "`tiers[0]`: unknown field `colour`"),
        (r#""tiers": [{"above_input_tokens": 1, "input_per_1m": -1}]"#.to_owned(), "`tiers[0].input_per_1m` must"),
        (r#""tiers": [{"above_input_tokens": 1, "input_per_1k": 1}]"#.to_owned(), "cannot stand together"),
        (
            r#""tiers": [{"above_input_tokens": 1, "total_per_1m": 1}]"#.to_owned(),
            "`tiers[0]`: `total_per_1m` has no tiers",
        ),
        (r#""service_tiers": {"batch": -0.5}"#.to_owned(), "`service_tiers.batch` has to be a number from 0"),
        (r#""service_tiers": {"batch": null}"#.to_owned(), "`service_tiers.batch` has to be a number from 0"),
        (r#""service_tiers": {"": 1}"#.to_owned(), "`service_tiers` has names"),
        (r#""service_tiers": {"a": 1, "A": 1}"#.to_owned(), "`service_tiers` has names"),
        (format!(r#""service_tiers": {{"{long}": 1}}"#), "`service_tiers` has names"),
        (format!(r#""service_tiers": {{{}}}"#, many.join(",")), "`service_tiers` has at most 16"),
        (r#""prefix": 1"#.to_owned(), "`prefix`"),
        (r#""output_per_1m": 1"#.to_owned(), "`output_per_1m` is there twice"),
        (r#""input_per_1b": 1"#.to_owned(), "unknown field `input_per_1b`, expected `request`"),
    ] {
        let json = format!(r#"{{"input_per_1m": 1, "output_per_1m": 1, {fields}}}"#);
        let message = read(&json).unwrap_err();
        assert!(message.contains(named), "{json}: {message}");
    }
}

#[test]
fn every_field_is_listed() {
    let all: Vec<String> = fields().collect();
    assert_eq!(all.len(), 2 * RateKind::ALL.len() + OTHERS.len());
    for field in &all {
        assert!(rate_field(field).is_some() || OTHERS.contains(&field.as_str()));
    }
}
