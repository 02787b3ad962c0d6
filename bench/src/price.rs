//! Pricing of one model call: nanoseconds of one core, with a typical number of prices and with the maximum.

use std::hint::black_box;
use std::time::Instant;

use anyhow::anyhow;
use schemas::price::rate::{Per, Rate};
use schemas::price::{PriceKey, PriceRow, PriceTable, Rates, Usage};

const CALLS: u64 = 5_000_000;

fn table(rows: usize) -> anyhow::Result<PriceTable> {
    let rate = |per_1m| Rate::read(per_1m, Per::Million).map_err(|error| anyhow!("{error}"));
    let rates = Rates {
        input: rate("2.5")?,
        output: rate("10")?,
        cached_input: Some(rate("1.25")?),
        total: None,
        special: None,
    };
    Ok(PriceTable::new((0..rows).map(|at| PriceRow {
        key: PriceKey {
            model: format!("maker-{}/model-{at:05}", at % 7),
            is_prefix: at % 2 == 1,
            effective_from: None,
        },
        rates: rates.clone(),
    })))
}

/// Prints a line for each kind of look-up.
pub(crate) fn run() -> anyhow::Result<()> {
    for rows in [100, 10_000] {
        let table = table(rows)?;
        for (what, model) in [
            ("exact name", "maker-4/model-00060"),
            ("beginning", "maker-5/model-00061-2026-11-20"),
            (
                "decorated",
                "us.anthropic.maker-4/model-00060-20261120-v1:0",
            ),
            ("unknown", "another/model"),
            (
                "unknown, decorated",
                "openrouter/anthropic/claude-9.9-20261120:beta",
            ),
        ] {
            let started = Instant::now();
            for call in 0..CALLS {
                let usage = Usage {
                    model: black_box(model),
                    prompt: Some(call),
                    completion: Some(300),
                    total: None,
                    cached: Some(100),
                    at_ms: 1_795_132_900_000,
                    ..Usage::default()
                };
                black_box(table.charge(usage));
            }
            let nanoseconds = started.elapsed().as_secs_f64() * 1e9 / CALLS as f64;
            println!("{rows:>6} rows, {what:<18} {nanoseconds:6.1} ns/call");
        }
    }
    Ok(())
}
