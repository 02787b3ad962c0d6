//! A rebuild gives an equal table (P5), whatever goes on meanwhile, and a check finds what is not equal.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use schemas::ids::ProjectId;
use schemas::job::{Rebuild, RebuildReport, Retention};
use schemas::price::rate::Rate;
use schemas::price::{PriceKey, PriceRow, PriceTable, Rates};
use serde_json::{Value, json};
use store::credentials::Credentials;
use store::jobs::{Job, JobKind};

use crate::deployment::Deployment;

const DAY_MS: i64 = 86_400_000;
/// Reports while one job runs.
const REPORTS_MEANWHILE: usize = 40;

fn now_ms() -> i64 {
    chrono::Utc::now().timestamp_millis()
}

/// Events of runs in trees, some of them in cycles, over days, with marks before and after their runs.
pub(crate) fn events(random: &mut StdRng, runs: std::ops::Range<usize>) -> Vec<Value> {
    let mut events = Vec::new();
    for at in runs.clone() {
        let run = format!("r{at}");
        let start = now_ms() - random.random_range(0..6 * DAY_MS);
        let parent = random
            .random_bool(0.7)
            .then(|| format!("r{}", random.random_range(0..runs.end + 3)));
        let is_call = random.random_bool(0.5);
        events.push(json!({
            "name": "step_start", "run_id": run, "parent_run_id": parent, "timestamp": start,
            "type": if is_call { "llm" } else { "agent" }, "input": {"question": at},
            "thread_id": (at % 4 == 0).then(|| format!("talk-{}", at % 3)),
            "metadata": {"agent": if at % 3 == 0 { json!("planner") } else { Value::Null }, "key": at % 5},
        }));
        if random.random_bool(0.8) {
            events.push(json!({
                "name": if at % 7 == 0 { "step_error" } else { "step_end" }, "run_id": run, "output": "done",
                "timestamp": start + random.random_range(0..DAY_MS).min(now_ms() - start), "model": format!("model-{}", at % 3),
                "prompt_tokens": at, "completion_tokens": 2 * at, "tags": [format!("t{}", at % 4)],
            }));
        }
        let mark = |name: &str, at_ms: i64| json!({"name": name, "run_id": run, "timestamp": at_ms, "rating": "negative", "comment": "no"});
        match random.random_range(0..8) {
            0 => events.push(mark("saved", start - 1000)),
            1 => events.push(mark("feedback", start + 1000)),
            2 => events.push(
                json!({"name": "saved", "run_id": format!("unseen-{at}"), "timestamp": start}),
            ),
            _ => {}
        }
    }
    events
}

fn prices(units: i128) -> Arc<PriceTable> {
    let rate = Rate::from_units(units).unwrap();
    Arc::new(PriceTable::new([PriceRow {
        key: PriceKey {
            model: "model-1".to_owned(),
            is_prefix: false,
            effective_from: None,
        },
        rates: Rates {
            input: rate,
            output: rate,
            cached_input: None,
            total: None,
            special: None,
        },
    }]))
}

/// Reports in pieces and in any order, so that parents come late and runs are written again and again.
async fn report(deployment: &Deployment, random: &mut StdRng, mut events: Vec<Value>) {
    for at in (1..events.len()).rev() {
        events.swap(at, random.random_range(0..=at));
    }
    for piece in events.chunks(20) {
        let app = if random.random_bool(0.9) { "a" } else { "b" };
        deployment.report("p", app, piece).await;
    }
}

/// Everything that readers see of runs, a line each.
async fn seen(deployment: &Deployment) -> BTreeSet<String> {
    let sql = "SELECT toString(tuple(app_id, run_id, started_at, parent_run_id, root_run_id, name, type, toString(status), agent, thread_id, turn_at, \
                 model, tags, ended_at, prompt_tokens, cost, toString(cost_status), total_cost, total_tokens_with_children, \
                 llm_calls, error_count, saved, feedback_rating, feedback_at, input_preview, output_preview, metadata)) \
               FROM runs FINAL";
    let rows: Vec<String> = deployment.store.bounded_query(sql).rows().await.unwrap();
    rows.into_iter().collect()
}

fn report_of(job: &Job) -> RebuildReport {
    serde_json::from_str(&job.report).unwrap()
}

async fn run(deployment: &Deployment, kind: JobKind) -> RebuildReport {
    let job = deployment.ask(kind, None, &Rebuild::default()).await;
    let done = deployment.done(&job.job_id).await;
    let report = report_of(&done);
    assert_eq!(
        done.changed,
        report.missing + report.extra + report.different
    );
    report
}

async fn tables_left(deployment: &Deployment) -> Vec<String> {
    let sql = "SELECT name FROM system.tables WHERE database = currentDatabase() AND name LIKE '%rebuild%'";
    deployment.store.bounded_query(sql).rows().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_gives_an_equal_table_while_reporting_goes_on_p5() {
    let mut random = StdRng::seed_from_u64(51);
    let mut deployment = Deployment::new().await;
    deployment.piece_rows = 100;
    deployment.prices.send_replace(prices(5));
    let reported = events(&mut random, 0..300);
    report(&deployment, &mut random, reported).await;
    deployment.drained().await;
    deployment.start_runner();
    for kind in [JobKind::Check, JobKind::Rebuild] {
        let job = deployment.ask(kind, None, &Rebuild::default()).await;
        let mut first = if kind == JobKind::Check { 0 } else { 1000 };
        // Each report makes the job longer: without a bound, a slow machine never catches up.
        for _ in 0..REPORTS_MEANWHILE {
            if deployment.job(&job.job_id).await.state.is_over() {
                break;
            }
            // New runs, and further events of old ones.
            let more = events(&mut random, first..first + 4);
            report(&deployment, &mut random, more).await;
            first += 3;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let done = deployment.done(&job.job_id).await;
        assert_eq!(report_of(&done), RebuildReport::default(), "{kind:?}");
        assert_eq!(done.done, done.total);
    }
    // What comes afterwards goes on from the new rows.
    let more = events(&mut random, 100..400);
    report(&deployment, &mut random, more).await;
    deployment.drained().await;
    assert_eq!(
        run(&deployment, JobKind::Check).await,
        RebuildReport::default()
    );
    let before = seen(&deployment).await;
    assert_eq!(
        run(&deployment, JobKind::Rebuild).await,
        RebuildReport::default()
    );
    assert_eq!(seen(&deployment).await, before);
    assert!(tables_left(&deployment).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_finds_what_is_wrong_and_a_rebuild_mends_it_p5() {
    let mut deployment = Deployment::new().await;
    let start = now_ms() - DAY_MS;
    let event = |run: &str, name: &str, at: i64| json!({"name": name, "run_id": run, "timestamp": start + at, "type": "agent"});
    let good: Vec<Value> = (0..10)
        .map(|at| event(&format!("r{at}"), "a_start", at))
        .collect();
    deployment.report("p", "a", &good).await;
    deployment.drained().await;
    let before = seen(&deployment).await;
    // One row is gone, one says something else, and one is of a run that was never reported.
    for sql in [
        "INSERT INTO runs SELECT * REPLACE (1 AS is_deleted, 1000 AS version) FROM runs FINAL WHERE run_id = 'r1'",
        "INSERT INTO runs SELECT * REPLACE ('other' AS name, 1000 AS version, 7 AS error_count) FROM runs FINAL WHERE run_id = 'r2'",
        "INSERT INTO runs SELECT * REPLACE ('ghost' AS run_id) FROM (SELECT * FROM runs FINAL WHERE run_id = 'r3')",
    ] {
        deployment.store.run(sql).await.unwrap();
    }
    let planted = seen(&deployment).await;
    assert_ne!(planted, before);
    deployment.start_runner();
    let found = run(&deployment, JobKind::Check).await;
    assert_eq!(
        (found.missing, found.extra, found.different, found.repriced),
        (1, 1, 1, 0)
    );
    let mut examples: Vec<(&str, &str, Vec<String>)> = Vec::new();
    for example in &found.examples {
        examples.push((&example.run_id, &example.kind, example.columns.clone()));
    }
    examples.sort();
    assert_eq!(
        examples,
        [
            ("ghost", "extra", vec![]),
            ("r1", "missing", vec![]),
            (
                "r2",
                "different",
                vec!["name".to_owned(), "error_count".to_owned()]
            ),
        ]
    );
    assert_eq!(seen(&deployment).await, planted, "a check changes nothing");
    let found = run(&deployment, JobKind::Rebuild).await;
    assert_eq!(
        (
            found.missing,
            found.extra,
            found.different,
            found.carried_over
        ),
        (1, 1, 1, 1)
    );
    let mended: Vec<String> = seen(&deployment)
        .await
        .into_iter()
        .filter(|line| !line.contains("ghost"))
        .collect();
    assert_eq!(mended, before.into_iter().collect::<Vec<_>>());
    // The workers know the rows that were put there: the next event of a run finds what was there before.
    deployment
        .report(
            "p",
            "a",
            &[event("r1", "a_end", 50), event("r2", "a_end", 60)],
        )
        .await;
    deployment.drained().await;
    let found = run(&deployment, JobKind::Check).await;
    assert_eq!((found.missing, found.different), (0, 0), "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn costs_of_older_prices_are_told_apart_p5() {
    let mut random = StdRng::seed_from_u64(52);
    let mut deployment = Deployment::new().await;
    deployment.prices.send_replace(prices(5));
    let reported = events(&mut random, 0..100);
    report(&deployment, &mut random, reported).await;
    deployment.drained().await;
    deployment.prices.send_replace(prices(6));
    deployment.start_runner();
    let found = run(&deployment, JobKind::Check).await;
    assert_eq!(
        (found.missing, found.extra, found.different),
        (0, 0, 0),
        "{found:?}"
    );
    assert!(found.repriced > 0);
    run(&deployment, JobKind::Rebuild).await;
    assert_eq!(
        run(&deployment, JobKind::Check).await,
        RebuildReport::default()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_retention_the_events_that_are_left_make_the_runs_that_are_left_p5_p6() {
    let mut random = StdRng::seed_from_u64(53);
    let mut deployment = Deployment::new().await;
    let credentials = Credentials::new((*deployment.store).clone());
    let project = ProjectId::new("p");
    credentials.put_project(&project, "a", &[]).await.unwrap();
    credentials.set_retention(&project, 3).await.unwrap();
    deployment.prices.send_replace(prices(5));
    let reported = events(&mut random, 0..250);
    report(&deployment, &mut random, reported).await;
    deployment.drained().await;
    deployment.start_runner();
    let before = seen(&deployment).await.len();
    let job = deployment
        .ask(JobKind::Retention, None, &Retention::default())
        .await;
    deployment.done(&job.job_id).await;
    let left = seen(&deployment).await.len();
    assert!(left < before && left > 0, "{left} of {before}");
    assert_eq!(
        run(&deployment, JobKind::Check).await,
        RebuildReport::default()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_anywhere_a_rebuild_comes_to_the_same_end_r1() {
    let mut random = StdRng::seed_from_u64(54);
    let mut deployment = Deployment::new().await;
    deployment.piece_rows = 50;
    let reported = events(&mut random, 0..150);
    report(&deployment, &mut random, reported).await;
    deployment.drained().await;
    let before = seen(&deployment).await;
    let job = deployment
        .ask(JobKind::Rebuild, None, &Rebuild::default())
        .await;
    let mut kills = 0;
    while kills < 15 {
        deployment.start_runner();
        tokio::time::sleep(Duration::from_millis(random.random_range(1..900))).await;
        if deployment.job(&job.job_id).await.state.is_over() {
            break;
        }
        deployment.kill_runner().await;
        kills += 1;
        assert_eq!(seen(&deployment).await, before, "after {kills} kills");
    }
    if kills == 15 {
        deployment.start_runner();
    }
    deployment.done(&job.job_id).await;
    eprintln!("killed {kills} times");
    assert_eq!(seen(&deployment).await, before);
    assert!(tables_left(&deployment).await.is_empty());
}
