//! The price table: shipped rows, changes, and several processes over one database.

use schemas::price::rate::{Per, Rate};
use schemas::price::written::WrittenPrice;
use schemas::price::{PriceKey, PriceRow, PriceTable, Rates};
use store::prices::{CHANGED_ROWS_MAX, Prices};
use store::testing::TestDatabase;

use crate::database;

/// 2026-11-21T00:00:00Z.
const NOW_MS: i64 = 1_795_219_200_000;

async fn directory() -> (TestDatabase, Prices) {
    let database = database().await.unwrap();
    let prices = Prices::new((*database).clone()).unwrap();
    prices.refresh().await.unwrap();
    (database, prices)
}

fn row(model: &str, per_1m: &str) -> PriceRow {
    PriceRow {
        key: PriceKey {
            model: model.to_owned(),
            is_prefix: false,
            effective_from: None,
        },
        rates: Rates {
            input: Rate::read(per_1m, Per::Million).unwrap(),
            output: Rate::MAX,
            cached_input: Some(Rate::default()),
            total: None,
            special: None,
        },
    }
}

fn input(table: &PriceTable, model: &str) -> Option<String> {
    let rates = table.rates(model, NOW_MS)?;
    Some(rates.input.per(Per::Million).to_string())
}

#[tokio::test]
async fn what_is_written_is_read_back_to_the_last_digit() {
    let (database, prices) = directory().await;
    let odd = "it's \\ a \"model\"/\tä\u{1F9F5}";
    let mut finest = row(odd, "0.000000000001");
    finest.key.is_prefix = true;
    finest.key.effective_from = Some(NOW_MS + 1);
    finest.rates.cached_input = None;
    finest.rates.total = Some(Rate::MAX);
    let mut special = row("special", "1");
    let written: WrittenPrice = serde_json::from_str(
        r#"{"input_per_1m": 1, "output_per_1m": 2, "cache_write_per_1m": 1.25, "reasoning_per_1m": 0.000000000001,
            "request": 0.01, "service_tiers": {"it's \"\\": 0.5, "priority": 2},
            "tiers": [{"above_input_tokens": 200000, "input_per_1m": 2}]}"#,
    )
    .unwrap();
    special.rates = written.row("special").unwrap().rates;
    assert!(special.rates.special.is_some());
    for row in [row(odd, "999999.999999999999"), finest, special] {
        let record = prices.put(&row).await.unwrap();
        assert_eq!(record.row, row);
        assert!(record.changed_at_ms.is_some());
        let other = Prices::new((*database).clone()).unwrap();
        other.refresh().await.unwrap();
        assert!(other.records().contains(&record));
    }
}

#[tokio::test]
async fn a_change_acts_here_at_once_and_in_another_process_after_a_refresh() {
    let (database, here) = directory().await;
    let there = Prices::new((*database).clone()).unwrap();
    there.refresh().await.unwrap();
    let mut seen_there = there.subscribe();
    assert_eq!(input(&here.current(), "gpt-4o").as_deref(), Some("2.5"));

    here.put(&row("gpt-4o", "7")).await.unwrap();
    here.put(&row("ours", "1")).await.unwrap();
    assert_eq!(input(&here.current(), "gpt-4o").as_deref(), Some("7"));
    assert_eq!(input(&there.current(), "ours"), None);
    assert!(!seen_there.has_changed().unwrap());
    there.refresh().await.unwrap();
    assert!(seen_there.has_changed().unwrap());
    assert_eq!(
        input(&seen_there.borrow_and_update(), "gpt-4o").as_deref(),
        Some("7")
    );
    assert_eq!(input(&there.current(), "ours").as_deref(), Some("1"));

    there.refresh().await.unwrap();
    assert!(
        !seen_there.has_changed().unwrap(),
        "no notice when nothing changed"
    );

    // The other way round, and over the first one's row.
    there.put(&row("ours", "2")).await.unwrap();
    here.refresh().await.unwrap();
    assert_eq!(input(&here.current(), "ours").as_deref(), Some("2"));
    assert_eq!(here.records(), there.records());
}

#[tokio::test]
async fn the_last_of_many_changes_counts_whatever_their_speed() {
    let (database, here) = directory().await;
    let there = Prices::new((*database).clone()).unwrap();
    for round in 1..=10 {
        let (prices, price) = ([&here, &there][round % 2], round.to_string());
        prices.put(&row("m", &price)).await.unwrap();
        assert_eq!(input(&prices.current(), "m"), Some(price));
    }
    here.refresh().await.unwrap();
    assert_eq!(input(&here.current(), "m").as_deref(), Some("10"));
}

#[tokio::test]
async fn what_is_deleted_is_gone_shipped_rows_too_until_it_is_set_again() {
    let (database, prices) = directory().await;
    // Shipped with two dates: the earlier one reappears when the later is deleted, and is deleted too.
    let is_luna = |key: &PriceKey| key.model == "gpt-5.6-luna";
    assert_eq!(
        input(&prices.current(), "gpt-5.6-luna").as_deref(),
        Some("0.2")
    );
    prices.put(&row("gpt-5.6-luna", "9")).await.unwrap();
    assert_eq!(
        input(&prices.current(), "gpt-5.6-luna").as_deref(),
        Some("9"),
        "a shipped price cut does not undo what a person set"
    );
    let gone = prices.delete(is_luna).await.unwrap();
    assert_eq!(gone.len(), 2, "{gone:?}");
    assert_eq!(input(&prices.current(), "gpt-5.6-luna"), None);
    assert_eq!(prices.delete(is_luna).await.unwrap(), []);
    let other = Prices::new((*database).clone()).unwrap();
    other.refresh().await.unwrap();
    assert_eq!(input(&other.current(), "gpt-5.6-luna"), None);
    prices.put(&row("gpt-5.6-luna", "4")).await.unwrap();
    assert_eq!(
        input(&prices.current(), "gpt-5.6-luna").as_deref(),
        Some("4")
    );
    // Every row at once: more than fit into one statement.
    let all = prices.records().len();
    assert!(prices.delete(|_| true).await.unwrap().len() >= all);
    assert!(prices.current().is_empty());
}

#[tokio::test]
async fn deleted_rows_that_hide_nothing_make_room_and_set_keys_are_never_refused() {
    let (database, prices) = directory().await;
    prices.put(&row("deleted", "1")).await.unwrap();
    prices.put(&row("deleted", "2")).await.unwrap();
    prices.put(&row("deleted-too", "3")).await.unwrap();
    for name in ["deleted", "deleted-too", "gpt-4o"] {
        prices.delete(|key| key.model == name).await.unwrap();
    }
    let hiding = prices.delete(|key| key.model.starts_with("gpt-4")).await;
    assert!(!hiding.unwrap().is_empty());
    let other = Prices::new((*database).clone()).unwrap();
    other.refresh().await.unwrap();
    let sql = format!(
        "INSERT INTO prices (model, version) SELECT concat('m', toString(number)), 1 \
         FROM numbers({CHANGED_ROWS_MAX}) WHERE number >= (SELECT count() FROM prices FINAL)"
    );
    database.run(&sql).await.unwrap();
    // Full: a deleted one can be set again.
    prices.put(&row("deleted", "4")).await.unwrap();
    // A new one takes the room of the other deleted one; then there is none left.
    prices.put(&row("new", "5")).await.unwrap();
    assert_eq!(input(&prices.current(), "deleted-too"), None);
    let refusal = prices.put(&row("newer", "6")).await.unwrap_err();
    assert!(refusal.to_string().contains("10000"), "{refusal}");
    prices.put(&row("m9000", "7")).await.unwrap();
    other.refresh().await.unwrap();
    for (model, expected) in [
        ("deleted", Some("4")),
        ("deleted-too", None),
        ("new", Some("5")),
        ("m9000", Some("7")),
        ("gpt-4o", None),
    ] {
        assert_eq!(
            input(&other.current(), model).as_deref(),
            expected,
            "{model}"
        );
    }
}

#[tokio::test]
async fn a_row_of_a_former_version_has_the_rates_that_it_had() {
    let (database, prices) = directory().await;
    // Such versions write every column but `details`.
    let sql = "INSERT INTO prices (model, is_prefix, effective_from, version, is_deleted, input, output, cached_input, \
        total, changed_at) VALUES ('former', 0, 0, 1, 0, 0.000001, 0.000002, NULL, NULL, now64(3))";
    database.run(sql).await.unwrap();
    prices.refresh().await.unwrap();
    let table = prices.current();
    let rates = table.rates("former", NOW_MS).unwrap();
    assert_eq!(rates.output.per(Per::Million).to_string(), "2");
    assert_eq!(rates.special, None);
}

#[tokio::test]
async fn the_longest_details_fit_into_a_statement() {
    let (database, prices) = directory().await;
    let kinds = [
        "input",
        "output",
        "cached_input",
        "cache_write",
        "cache_write_1h",
        "input_audio",
        "output_audio",
    ];
    let tier = |above: u32| {
        let rates = kinds.map(|kind| format!(r#""{kind}_per_1m": 0.123456789012"#));
        format!(r#"{{"above_input_tokens": {above}, {}}}"#, rates.join(", "))
    };
    let tiers: Vec<String> = (1..=16).map(tier).collect();
    let factors: Vec<String> = (0..16)
        .map(|at| format!(r#""{}{at}": 0.123456"#, "'".repeat(60)))
        .collect();
    let json = format!(
        r#"{{"input_per_1m": 1, "output_per_1m": 2, "tiers": [{}], "service_tiers": {{{}}}}}"#,
        tiers.join(","),
        factors.join(",")
    );
    let written: WrittenPrice = serde_json::from_str(&json).unwrap();
    let rates = written.row("m").unwrap().rates;
    let mut longest = row("m", "1");
    longest.rates = rates.clone();
    assert_eq!(prices.put(&longest).await.unwrap().row, longest);
    let other = Prices::new((*database).clone()).unwrap();
    other.refresh().await.unwrap();
    assert_eq!(other.current().rates("m", NOW_MS), Some(&rates));
}
