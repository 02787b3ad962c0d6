//! Removed or damaged files of the log and of the tables are reported and counted, and processing continues.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::StatusCode;
use rustix::process::Signal;
use serde_json::Value;

use super::files::stop;
use crate::harness::{Server, Setup, VISIBLE_WITHIN, event, kill};

/// Folders of parts of the tables, of today's partition or another one that a name begins with.
fn parts(setup: &Setup, begins: &str, holds: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![setup.data().join("engine/data")];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name().into_string().unwrap();
            if name.starts_with(begins) && has(&path, holds) {
                found.push(path);
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) && name != "detached" {
                left.push(path);
            }
        }
    }
    found
}

/// Whether it is a part of a table with such a column.
fn has(part: &Path, column: &str) -> bool {
    let columns = fs::read_to_string(part.join("columns.txt")).unwrap_or_default();
    columns.contains(&format!("`{column}`"))
}

async fn degraded(server: &Server) -> Vec<String> {
    let answer = server.client.get(format!("{}/health/ready", server.url));
    let answer = answer.send().await.unwrap();
    if answer.status() != StatusCode::OK {
        return Vec::new();
    }
    let body: Value = answer.json().await.unwrap();
    let degraded = body["degraded"].as_array().cloned().unwrap_or_default();
    let words = degraded
        .iter()
        .map(|word| word.as_str().unwrap().to_owned());
    words.collect()
}

async fn report(server: &Server, app: &str, runs: std::ops::Range<usize>) {
    let runs = runs.map(|run| event(app, &format!("run-{run}"), "agent_call", run as i64));
    let events: Vec<Value> = runs.collect();
    let answer = server.report(&events).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
}

async fn visible(server: &Server, app: &str, runs: usize) {
    let are_there = async || (server.all_runs(app).await?.len() == runs).then_some(());
    server
        .until("the runs are there", VISIBLE_WITHIN, are_there)
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removed_and_damaged_parts_of_the_tables_are_told_with_the_remedy() {
    // The retention of a first start would reject the rebuild with 409 for as long as it runs.
    let setup = Setup::new().with("retention.at", "never");
    let server = setup.start_ready().await;
    report(&server, "loss", 0..20).await;
    visible(&server, "loss", 20).await;
    assert_eq!(degraded(&server).await, [""; 0]);
    stop(server).await;

    let all = parts(&setup, "20", "event_id");
    assert!(!all.is_empty(), "parts of the events");
    for part in all {
        fs::remove_dir_all(part).unwrap();
    }
    // A damaged part of another table.
    let damaged = parts(&setup, "20", "total_cost");
    fs::write(damaged[0].join("columns.txt"), "damaged").unwrap();
    let server = setup.start_ready().await;
    let reported = async || degraded(&server).await.into_iter().next();
    let told = server
        .until("the loss is reported", Duration::from_secs(30), reported)
        .await;
    assert!(told.contains("missing or damaged"), "{told}");
    let metrics = server.metrics().await;
    let lost = |kind: &str| {
        let name = format!("spindle_store_lost_partitions{{kind=\"{kind}\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
        line.unwrap().parse::<f64>().unwrap()
    };
    assert!(
        lost("missing") >= 1.0 && lost("damaged") == 1.0,
        "{metrics}"
    );
    let logged = setup.logged();
    for part in [
        "of the table events are missing",
        "a damaged part of the table runs was set aside as",
        "spindle rebuild",
        "from a backup",
    ] {
        assert!(logged.contains(part), "{part}: {logged}");
    }

    // The loss is accepted: what is left becomes the table of runs, and only the damaged part is still told.
    report(&server, "loss", 20..25).await;
    visible(&server, "loss", 5).await;
    let rebuilt = server.command(&["rebuild"]);
    assert!(rebuilt.status.success(), "{rebuilt:?}");
    let accepted = server.metrics().await;
    assert!(
        accepted.contains("spindle_store_lost_partitions{kind=\"missing\"} 0"),
        "{accepted}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_log_segment_is_reported_with_its_records_and_processing_goes_on() {
    let setup = Setup::new();
    let server = setup.start_ready().await;
    report(&server, "before", 0..1).await;
    visible(&server, "before", 1).await;
    // The engine stands still, so what is accepted stays in the log.
    kill(server.engine_pid().unwrap(), Signal::STOP);
    report(&server, "lost", 0..5).await;
    let mut server = server;
    server.kill();
    drop(server);
    let log = setup.data().join("log");
    fs::remove_file(log.join("000000000000.segment")).unwrap();

    let server = setup.start_ready().await;
    let told = degraded(&server).await;
    assert!(
        told.iter()
            .any(|word| word.contains("missing from the event log")),
        "{told:?}"
    );
    assert!(server.metric("spindle_eventlog_lost_records_total").await >= 1.0);
    assert!(setup.logged().contains("log segment 0 is missing"));
    report(&server, "after", 0..3).await;
    visible(&server, "after", 3).await;
    stop(server).await;
    let server = setup.start_ready().await;
    assert_eq!(degraded(&server).await, [""; 0], "told once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_log_segment_stops_the_start_and_says_what_to_do() {
    let setup = Setup::new();
    let mut server = setup.start_ready().await;
    kill(server.engine_pid().unwrap(), Signal::STOP);
    report(&server, "damaged", 0..5).await;
    server.kill();
    drop(server);
    let segment = setup.data().join("log/000000000000.segment");
    fs::write(&segment, [0xa5; 4096]).unwrap();
    let mut child = setup.spawn();
    let status = tokio::task::spawn_blocking(move || child.wait().unwrap());
    assert_eq!(status.await.unwrap().code(), Some(1));
    let logged = setup.logged();
    let path = segment.canonicalize().unwrap().display().to_string();
    let advice = format!("mv {path} {path}.damaged");
    let said = logged.lines().find(|line| line.contains(&advice));
    assert!(said.is_some_and(|line| line.contains("backup")), "{logged}");
    fs::rename(&path, format!("{path}.damaged")).unwrap();
    let server = setup.start_ready().await;
    report(&server, "after", 0..3).await;
    visible(&server, "after", 3).await;
    assert_eq!(degraded(&server).await.len(), 1);
}
