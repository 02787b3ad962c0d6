//! Paging while new runs arrive and old ones change: no run twice, none left out.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::harness::{Setup, VISIBLE_WITHIN, event};

const RUNS: usize = 120;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_hold_every_old_run_once_while_new_ones_arrive_and_old_ones_change() {
    let setup = Setup::new();
    let server = setup.start_ready().await;
    let old: Vec<String> = (0..RUNS).map(|run| format!("old-{run}")).collect();
    let starts: Vec<Value> = old
        .iter()
        .enumerate()
        .map(|(at, run)| event("pages", run, "agent_start", at as i64 * 7))
        .collect();
    assert_eq!(
        server.report(&starts).await.unwrap().status(),
        StatusCode::OK
    );
    server
        .until("the old runs are there", VISIBLE_WITHIN, async || {
            let runs = server.all_runs("pages").await?;
            (runs.len() == RUNS).then_some(())
        })
        .await;

    let done = AtomicBool::new(false);
    let change = async {
        let mut at = 0;
        while !done.load(Ordering::Relaxed) {
            let mut end = event("pages", &old[at % RUNS], "note", 100_000 + at as i64);
            end["tags"] = json!([format!("tag-{}", at % 50)]);
            let new = event(
                "pages",
                &format!("new-{at}"),
                "agent_start",
                50_000 + at as i64,
            );
            let answer = server.report(&[end, new]).await.unwrap();
            assert_eq!(answer.status(), StatusCode::OK);
            at += 1;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(at > 10, "there was change");
    };
    let read = async {
        for sort in ["-started_at", "started_at"] {
            let mut seen = BTreeSet::new();
            let mut cursor = String::new();
            loop {
                let (status, page) = server
                    .get(&format!(
                        "/api/run?app_id=pages&limit=7&sort={sort}{cursor}"
                    ))
                    .await;
                assert_eq!(status, StatusCode::OK, "{page}");
                for run in page["data"].as_array().unwrap() {
                    let id = run["run_id"].as_str().unwrap().to_owned();
                    assert!(
                        seen.insert(id.clone()),
                        "{id} is there twice, sorted by {sort}"
                    );
                }
                match page["next_cursor"].as_str() {
                    // New runs come in at the far end when sorted upwards: the old ones are what is promised.
                    Some(_) if sort == "started_at" && old.iter().all(|run| seen.contains(run)) => {
                        break;
                    }
                    Some(next) => {
                        cursor = format!(
                            "&cursor={}",
                            percent_encoding::utf8_percent_encode(
                                next,
                                percent_encoding::NON_ALPHANUMERIC
                            )
                        )
                    }
                    None => break,
                }
            }
            let missing: Vec<&String> = old.iter().filter(|run| !seen.contains(*run)).collect();
            assert!(
                missing.is_empty(),
                "left out, sorted by {sort}: {missing:?}"
            );
        }
        done.store(true, Ordering::Relaxed);
    };
    tokio::join!(change, read);
}
