//! `docs/reference/metrics.md` lists exactly what `/metrics` shows.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::harness::{Setup, VISIBLE_WITHIN, event};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/metrics.md");

/// Adds what the server shows: kind and meaning by name.
async fn gather(setup: Setup, known: &mut BTreeMap<String, (String, String)>) {
    let server = setup.start_ready().await;
    server
        .report(&[event("metrics", "r", "agent_start", 0)])
        .await
        .unwrap();
    server
        .until("it is visible", VISIBLE_WITHIN, async || {
            let runs = server.all_runs("metrics").await?;
            (!runs.is_empty()).then_some(())
        })
        .await;
    let shown = server.metrics().await;
    let after = |line: &str, word: &str| {
        let (name, rest) = line.strip_prefix(word)?.split_once(' ')?;
        Some((name.to_owned(), rest.to_owned()))
    };
    let kinds = shown.lines().filter_map(|line| after(line, "# TYPE "));
    let kinds: BTreeMap<String, String> = kinds.collect();
    for (name, help) in shown.lines().filter_map(|line| after(line, "# HELP ")) {
        let kind = kinds[&name].clone();
        known.entry(name).or_insert((kind, help));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reference_lists_every_metric() {
    let mut known = BTreeMap::new();
    gather(Setup::new(), &mut known).await;
    gather(Setup::distributed().await, &mut known).await;
    let mut expected = "# Metrics\n\nWritten from `/metrics` by `UPDATE=1 cargo test -p spindle --test live reference`.\nA process exposes the metrics of the parts that it runs.\n\n| metric | kind | meaning |\n| --- | --- | --- |\n".to_owned();
    for (name, (kind, help)) in known {
        writeln!(expected, "| `{name}` | {kind} | {help} |").unwrap();
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(PATH, &expected).unwrap();
    }
    let found = std::fs::read_to_string(PATH).unwrap_or_default();
    assert!(
        found == expected,
        "docs/reference/metrics.md is old: UPDATE=1 cargo test -p spindle --test live reference\n{expected}"
    );
}
