//! `docs/reference/metrics.md` lists exactly what `/metrics` shows.

use std::fmt::Write as _;

use crate::harness::{Setup, event};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/metrics.md");

#[tokio::test]
async fn the_reference_lists_every_metric() {
    let setup = Setup::new();
    let server = setup.start_ready().await;
    server
        .report(&[event("metrics", "r", "agent_start", 0)])
        .await
        .unwrap();
    server
        .until(
            "it is visible",
            crate::harness::VISIBLE_WITHIN,
            async || {
                let runs = server.all_runs("metrics").await?;
                (!runs.is_empty()).then_some(())
            },
        )
        .await;
    let shown = server.metrics().await;
    let mut expected = "# Metrics\n\nWritten from `/metrics` by `UPDATE=1 cargo test -p spindle --test live reference`.\n\n| metric | kind | meaning |\n| --- | --- | --- |\n".to_owned();
    for line in shown.lines() {
        if let Some((name, help)) = line
            .strip_prefix("# HELP ")
            .and_then(|rest| rest.split_once(' '))
        {
            let kind = shown
                .lines()
                .find_map(|line| line.strip_prefix(&format!("# TYPE {name} ")))
                .unwrap();
            writeln!(expected, "| `{name}` | {kind} | {help} |").unwrap();
        }
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
