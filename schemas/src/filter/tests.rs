//! Valid and invalid query strings.

use proptest::prelude::*;

use rust_decimal::Decimal;

use super::*;
use crate::api_error::ApiError;
use crate::fold::RunStatus;

fn read(pairs: &[(&str, &str)]) -> Result<RunQuery, ApiError> {
    RunQuery::from_pairs(pairs.iter().copied())
}

fn refused(pairs: &[(&str, &str)]) -> ApiError {
    let fault = read(pairs).expect_err("refused");
    assert_eq!(fault.status, 400, "{fault:?}");
    fault
}

#[test]
fn no_parameters_mean_the_newest_fifty_of_everything() {
    assert_eq!(
        read(&[]).unwrap(),
        RunQuery {
            limit: 50,
            ..RunQuery::default()
        }
    );
}

#[test]
fn every_parameter_is_read() {
    let query = read(&[
        ("app_id", "a"),
        ("status", "error"),
        ("model", "m"),
        ("agent", "g"),
        ("min_latency_s", "0.5"),
        ("max_latency_s", "1e1"),
        ("min_cost", "0.000000000000000001"),
        ("max_cost", "2.50"),
        ("tags", "x, y"),
        ("tags", "z"),
        ("tags[]", "p,q"),
        ("tags_all", "t"),
        ("user_email", "u@example.com"),
        ("from", "2026-11-20T12:00:00+02:00"),
        ("to", "1795168800000"),
        ("type", "llm"),
        ("name", "n"),
        ("thread_id", "th"),
        ("parent_run_id", "p"),
        ("root", "true"),
        ("has_parent", "false"),
        ("min_tokens", "0"),
        ("max_tokens", "1000000000000"),
        ("min_ttft_ms", "10"),
        ("max_ttft_ms", "900"),
        ("error", "Timeout"),
        ("saved", "false"),
        ("stale", "1"),
        ("feedback", "none"),
        ("metadata.env", "prod"),
        ("q", "needle"),
        ("sort", "-total_cost"),
        ("limit", "1000"),
        ("cursor", "abc"),
        ("count", "true"),
        ("project_id", "pr"),
    ])
    .unwrap();
    let owned = |text: &str| Some(text.to_owned());
    assert_eq!(
        query,
        RunQuery {
            filter: RunFilter {
                app_id: owned("a"),
                status: Some(RunStatus::Error),
                model: owned("m"),
                agent: owned("g"),
                user_email: owned("u@example.com"),
                kind: owned("llm"),
                name: owned("n"),
                thread_id: owned("th"),
                parent_run_id: owned("p"),
                root: Some(true),
                has_parent: Some(false),
                min_tokens: Some(0),
                max_tokens: Some(1_000_000_000_000),
                min_ttft_ms: Some(10),
                max_ttft_ms: Some(900),
                error: owned("Timeout"),
                saved: Some(false),
                stale: Some(true),
                feedback: Some(FeedbackFilter::None),
                min_latency_s: Some(Decimal::new(5, 1)),
                max_latency_s: Some(Decimal::new(10, 0)),
                min_cost: Some(Decimal::new(1, 18)),
                max_cost: Some(Decimal::new(25, 1)),
                tags: ["p,q", "x", "y", "z"].map(str::to_owned).to_vec(),
                tags_all: vec!["t".to_owned()],
                metadata: vec![("env".to_owned(), "prod".to_owned())],
                text: owned("needle"),
                from_ms: Some(1_795_168_800_000),
                to_ms: Some(1_795_168_800_000),
            },
            sort: Sort::TotalCostDesc,
            limit: 1000,
            cursor: owned("abc"),
            count: true,
            project_id: owned("pr"),
        }
    );
}

#[test]
fn unknown_parameters_are_named_all_at_once() {
    let fault = refused(&[("colour", "red"), ("limit", "5"), ("statuss", "error")]);
    assert_eq!(fault.code.as_str(), "unknown_parameter");
    assert_eq!(
        fault.message,
        "unknown query parameter: `colour`, `statuss`"
    );
}

#[test]
fn a_bad_limit_is_an_error_with_its_bounds_and_the_value() {
    for value in ["0", "1001", "-1", "ten"] {
        let error = refused(&[("limit", value)]);
        let message = format!("limit must be between 1 and 1000, got {value}");
        assert_eq!(
            (error.code.as_str(), error.message),
            ("invalid_parameter", message)
        );
    }
}

#[test]
fn a_bad_value_is_refused_with_parameter_value_and_what_is_allowed() {
    let fault = refused(&[("status", "done")]);
    assert_eq!(fault.code.as_str(), "invalid_parameter");
    assert_eq!(
        fault.message,
        "`status` cannot be `done`; allowed: success, error, started"
    );
    for (name, value) in [
        ("min_latency_s", "NaN"),
        ("max_latency_s", "inf"),
        ("min_cost", "infinity"),
        ("max_cost", "-1e10"),
        ("min_cost", "1e300"),
        ("min_cost", ""),
        ("min_cost", "1,5"),
        ("min_tokens", "-1"),
        ("min_tokens", "1.5"),
        ("max_tokens", "1000000000001"),
        ("has_parent", "maybe"),
        ("error", ""),
        ("sort", "cost"),
        ("root", "yes"),
        ("feedback", "good"),
        ("from", "yesterday"),
        ("to", "2026-13-01T00:00:00Z"),
        ("app_id", ""),
        ("tags", ""),
        ("tags", " , "),
        ("metadata.", "x"),
        ("metadata.k", ""),
    ] {
        let fault = refused(&[(name, value)]);
        assert!(
            fault.message.contains(&format!("`{name}`")),
            "{}",
            fault.message
        );
        assert!(fault.message.contains("allowed"), "{}", fault.message);
    }
}

#[test]
fn a_bound_above_its_counterpart_is_refused() {
    for pairs in [
        [("min_latency_s", "2"), ("max_latency_s", "1.999")],
        [("min_cost", "0.2"), ("max_cost", "0.1")],
        [("min_tokens", "11"), ("max_tokens", "10")],
        [
            ("from", "2026-11-20T10:00:00Z"),
            ("to", "2026-11-20T10:00:00.999+00:30"),
        ],
    ] {
        let fault = refused(&pairs);
        assert!(
            fault.message.contains(pairs[0].0) && fault.message.contains(pairs[1].0),
            "{}",
            fault.message
        );
    }
    assert!(read(&[("min_cost", "0.1"), ("max_cost", "0.10")]).is_ok());
}

#[test]
fn a_single_valued_parameter_is_refused_when_it_is_repeated() {
    assert!(
        refused(&[("model", "a"), ("model", "a")])
            .message
            .contains("`model`")
    );
    assert!(
        refused(&[("metadata.k", "a"), ("metadata.k", "b")])
            .message
            .contains("`metadata.k`")
    );
}

#[test]
fn an_offset_whose_plus_became_a_blank_is_understood() {
    let plain = read(&[("from", "2026-11-20T12:00:00+02:00")]).unwrap();
    assert_eq!(
        read(&[("from", "2026-11-20T12:00:00 02:00")]).unwrap(),
        plain
    );
}

#[test]
fn a_bare_date_means_its_first_moment_in_from_and_its_last_in_to() {
    let filter = read(&[("from", "2026-11-20"), ("to", "2026-11-20")])
        .unwrap()
        .filter;
    assert_eq!(
        filter.to_ms.unwrap() - filter.from_ms.unwrap(),
        24 * 3600 * 1000 - 1
    );
}

#[test]
fn bounds_are_compared_as_given_also_where_nothing_so_fine_is_stored() {
    let filter = read(&[
        ("min_latency_s", "0.1001"),
        ("max_latency_s", "0.1004"),
        ("min_cost", "-1"),
        ("max_cost", "5e-324"),
    ])
    .unwrap()
    .filter;
    assert_eq!(
        (filter.min_latency_s, filter.max_latency_s),
        (Some(Decimal::new(1001, 4)), Some(Decimal::new(1004, 4)))
    );
    assert_eq!(filter.min_cost, Some(Decimal::NEGATIVE_ONE));
    assert_eq!(
        filter.max_cost,
        Some(Decimal::new(1, Decimal::MAX_SCALE)),
        "above nothing"
    );
}

#[test]
fn tags_and_metadata_keys_are_bounded() {
    let many: Vec<String> = (0..=FILTER_TAGS).map(|n| n.to_string()).collect();
    assert!(
        refused(&[("tags", &many.join(","))])
            .message
            .contains("`tags`")
    );
    assert!(read(&[("tags", &many[1..].join(","))]).is_ok());
    let keys: Vec<String> = (0..=FILTER_METADATA_KEYS)
        .map(|n| format!("metadata.{n}"))
        .collect();
    let pairs: Vec<(&str, &str)> = keys.iter().map(|key| (key.as_str(), "v")).collect();
    refused(&pairs);
    assert!(read(&pairs[1..]).is_ok());
}

#[test]
fn the_fingerprint_follows_the_question_and_not_the_page() {
    let of = |pairs: &[(&str, &str)]| read(pairs).unwrap().fingerprint();
    let base = of(&[("model", "m"), ("tags", "a,b")]);
    assert_eq!(
        base,
        of(&[
            ("tags", "b"),
            ("tags", "a"),
            ("model", "m"),
            ("limit", "7"),
            ("count", "true"),
            ("cursor", "x")
        ])
    );
    assert_eq!(of(&[("min_cost", "1.0")]), of(&[("min_cost", "1")]));
    for other in [
        &[("model", "m")][..],
        &[("agent", "m"), ("tags", "a,b")],
        &[("model", "m"), ("tags_all", "a,b")],
        &[("model", "m"), ("tags", "ab")],
        &[("model", "m"), ("tags", "a,b"), ("sort", "started_at")],
        &[("model", "m"), ("tags", "a,b"), ("project_id", "p")],
        &[("model", "m"), ("tags", "a,b"), ("root", "false")],
        &[("model", "m"), ("tags", "a,b"), ("has_parent", "true")],
        &[("model", "m"), ("tags", "a,b"), ("min_tokens", "1")],
        &[("model", "m"), ("tags", "a,b"), ("max_tokens", "1")],
        &[("model", "m"), ("tags", "a,b"), ("error", "m")],
    ] {
        assert_ne!(base, of(other), "{other:?}");
    }
}

#[test]
fn a_number_of_many_digits_is_read_without_a_stack_frame_for_each() {
    for (text, expected) in [
        (format!("0.5{}", "0".repeat(1_000_000)), Ok("0.5")),
        (format!("{}7", "0".repeat(1_000_000)), Ok("7")),
        (format!("{}1e0", "0".repeat(1_000_000)), Ok("1")),
        ("9".repeat(1_000_000), Err(400)),
    ] {
        let query = read(&[("min_cost", &text)]).map_err(|fault| fault.status);
        let cost = query.map(|query| query.filter.min_cost.unwrap().normalize());
        assert_eq!(cost, expected.map(|text| text.parse().unwrap()));
    }
}

proptest! {
    #[test]
    fn no_pairs_make_it_panic_and_every_refusal_is_a_400(
        pairs in prop::collection::vec((prop_oneof![
            "[a-z_.]{0,12}",
            prop::sample::select(vec!["min_cost", "max_cost", "min_latency_s", "from", "to", "tags", "limit", "metadata.k", "cursor"])
                .prop_map(str::to_owned),
        ], prop_oneof![".{0,40}", "[-+0-9.eE]{0,40}"]), 0..6)
    ) {
        let borrowed = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        if let Err(fault) = RunQuery::from_pairs(borrowed) {
            prop_assert_eq!(fault.status, 400);
        }
    }

    #[test]
    fn every_cost_that_is_written_plainly_is_read_exactly(units in 0u64..=u64::MAX, scale in 10u32..=18) {
        let cost = Decimal::from_i128_with_scale(i128::from(units), scale);
        prop_assume!(cost <= Decimal::from(FILTER_NUMBER_MAX));
        prop_assert_eq!(read(&[("min_cost", &cost.to_string())]).unwrap().filter.min_cost, Some(cost));
    }

    #[test]
    fn every_finite_number_in_range_is_taken(number in 0.0f64..1e9) {
        let text = format!("{number:e}");
        prop_assert!(read(&[("min_cost", &text)]).is_ok(), "{}", text);
        let text = number.to_string();
        prop_assert!(read(&[("max_latency_s", &text)]).is_ok(), "{}", text);
    }
}
