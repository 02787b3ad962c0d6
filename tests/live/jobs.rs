//! Long work with the real binary: commands, and `kill -9` of the server in the middle (R1, S1, P5).

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::{Server, Setup, VISIBLE_WITHIN, both_ways};

both_ways!(costs_are_recalculated_right_after_the_first_start);

const RECALCULATE: &str = "/api/internal/cost/recalculate";
const REBUILD: &str = "/api/internal/rebuild";

const DAY_MS: i64 = 86_400_000;

fn call(run: &str, days_ago: i64, name: &str) -> Value {
    let at = chrono::Utc::now().timestamp_millis() - days_ago * DAY_MS;
    json!({
        "name": name, "app_id": "jobs", "run_id": run, "type": "llm", "timestamp": at, "model": "model-of-the-house",
        "prompt_tokens": 1000, "completion_tokens": 10, "output": "done",
    })
}

async fn runs(server: &Server, count: usize) -> Vec<Value> {
    server
        .until(
            &format!("there are {count} runs"),
            VISIBLE_WITHIN,
            async || {
                let runs = server.all_runs("jobs").await?;
                (runs.len() == count).then_some(runs)
            },
        )
        .await
}

/// Asks for a job, kills the server a moment later, and waits for the end of the job on the next one.
async fn killed_during(setup: &Setup, mut server: Server, path: &str, after_ms: u64) -> Server {
    let (status, job) = server
        .ask(Method::POST, &server.token, path, Some(json!({})))
        .await;
    assert_eq!(status, StatusCode::ACCEPTED, "{job}");
    tokio::time::sleep(Duration::from_millis(after_ms)).await;
    server.kill();
    let server = setup.start_ready().await;
    let over = over(&server, &job).await;
    assert_eq!(over["state"], "done", "{over}");
    server
}

/// The job once it is over.
async fn over(server: &Server, job: &Value) -> Value {
    let at = format!("/api/internal/jobs/{}", job["job_id"].as_str().unwrap());
    server
        .until("the job is over", VISIBLE_WITHIN, async || {
            let (_, job) = server.get_as(&server.token, &at).await;
            let state = job["state"].as_str()?.to_owned();
            (state != "queued" && state != "running").then_some(job)
        })
        .await
}

async fn asked(server: &Server, path: &str, body: Value) -> Value {
    let asked = server.ask(Method::POST, &server.token, path, Some(body));
    let (status, job) = asked.await;
    assert_eq!(status, StatusCode::ACCEPTED, "{job}");
    job
}

async fn jobs(server: &Server) -> Vec<Value> {
    let (status, list) = server.get_as(&server.token, "/api/internal/jobs").await;
    assert_eq!(status, StatusCode::OK, "{list}");
    list["data"].as_array().unwrap().clone()
}

/// Although the time of the daily retention has just passed: it does not run on an empty deployment.
async fn costs_are_recalculated_right_after_the_first_start(setup: Setup) {
    let passed = chrono::Utc::now() - chrono::Duration::minutes(1);
    let at = passed.format("%H:%M").to_string();
    let setup = setup.with("retention.at", &at);
    let server = setup.start_ready().await;
    let job = asked(&server, RECALCULATE, json!({})).await;
    assert_eq!(
        (&job["state"], &job["position"]),
        (&json!("queued"), &json!(1))
    );
    let over = over(&server, &job).await;
    assert_eq!(over["state"], "done", "{over}");
    assert_eq!(over["position"], Value::Null);
    assert_eq!(jobs(&server).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_wait_for_each_other_over_a_restart_and_the_same_job_is_one_r1() {
    let setup = Setup::distributed().await.with("retention.at", "never");
    let mut server = setup.start_ready().await;
    // Without a processor every job waits.
    let [_, processor, _] = &mut server.processes[..] else {
        panic!("one process of each tier");
    };
    processor.kill();
    let requests = [
        (REBUILD, json!({"check_only": true})),
        (RECALCULATE, json!({})),
        (RECALCULATE, json!({"dry_run": true})),
        (REBUILD, json!({})),
    ];
    let mut queued = Vec::new();
    for (at, (path, body)) in requests.iter().enumerate() {
        let job = asked(&server, path, body.clone()).await;
        assert_eq!(
            (&job["state"], &job["position"]),
            (&json!("queued"), &json!(at + 1))
        );
        assert_eq!(
            asked(&server, path, body.clone()).await,
            job,
            "the same job"
        );
        queued.push(job);
    }
    let at = |job: &Value| format!("/api/internal/jobs/{}", job["job_id"].as_str().unwrap());
    let path = format!("{}/cancel", at(&queued[1]));
    let canceled = server.ask(Method::POST, &server.token, &path, None).await.1;
    assert_eq!(canceled["state"], "cancelled");
    let (_, moved) = server.get_as(&server.token, &at(&queued[3])).await;
    assert_eq!(moved["position"], 3, "{moved}");

    server.kill();
    let server = setup.start_ready().await;
    let mut ended = String::new();
    for (number, job) in queued.iter().enumerate() {
        let over = over(&server, job).await;
        let time = |field: &str| over[field].as_str().unwrap_or_default().to_owned();
        if number == 1 {
            assert_eq!(over, canceled, "it never begins");
            continue;
        }
        assert_eq!(over["state"], "done", "{over}");
        assert!(time("started_at") >= ended, "one after another: {over}");
        ended = time("ended_at");
    }
    assert_eq!(jobs(&server).await.len(), requests.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queued_jobs_outlive_a_kill_of_the_server_r1() {
    let setup = Setup::new().with("retention.at", "never");
    let mut server = setup.start_ready().await;
    let mut queued = Vec::new();
    for body in [json!({}), json!({"check_only": true})] {
        queued.push(asked(&server, REBUILD, body).await);
    }
    for body in [json!({}), json!({"dry_run": true})] {
        queued.push(asked(&server, RECALCULATE, body).await);
    }
    server.kill();
    let server = setup.start_ready().await;
    for job in &queued {
        let over = over(&server, job).await;
        assert_eq!(over["state"], "done", "{over}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_come_to_the_same_end_over_kills_of_the_server_r1_s1_p5() {
    let setup = Setup::new().with("retention.at", "never");
    let server = setup.start_ready().await;
    let mut events: Vec<Value> = (0..200)
        .map(|at| call(&format!("old-{at}"), 9, "llm_call"))
        .collect();
    events.extend((0..50).map(|at| call(&format!("new-{at}"), 0, "llm_call")));
    events.push(call("old-7", 0, "saved"));
    assert_eq!(
        server.report(&events).await.unwrap().status(),
        StatusCode::OK
    );
    assert!(runs(&server, 250).await.iter().all(|run| run["cost"] == 0));

    let price = json!({"input_per_1k": 0.5, "output_per_1k": 1});
    let (status, answer) = server
        .ask(
            Method::PUT,
            &server.token,
            "/api/internal/prices/model-of-the-house",
            Some(price),
        )
        .await;
    assert!(status.is_success(), "{answer}");
    let output = server.command(&["recalculate", "--dry-run", "--app", "jobs"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && said.contains("cost after: 127.5 USD"),
        "{said}"
    );
    let server = killed_during(&setup, server, RECALCULATE, 60).await;
    server
        .until("every run has its cost", VISIBLE_WITHIN, async || {
            let runs = server.all_runs("jobs").await?;
            runs.iter().all(|run| run["cost"] == 0.51).then_some(())
        })
        .await;

    let set = server.command(&["project", "set", "default", "--retention-days", "5"]);
    assert!(
        set.status.success(),
        "{}",
        String::from_utf8_lossy(&set.stderr)
    );
    let server = killed_during(&setup, server, "/api/internal/retention", 250).await;
    let left = runs(&server, 51).await;
    assert!(
        left.iter()
            .any(|run| run["run_id"] == "old-7" && run["saved"] == true),
        "(S1)"
    );

    let server = killed_during(&setup, server, REBUILD, 150).await;
    assert_eq!(runs(&server, 51).await, left, "(P5)");
    let check = server.command(&["check"]);
    let said = String::from_utf8_lossy(&check.stdout).into_owned();
    assert_eq!(check.status.code(), Some(0), "{said}");
    assert!(
        said.contains("missing: 0") && said.contains("different: 0"),
        "{said}"
    );
    let list = server.command(&["job", "list"]);
    let listed = String::from_utf8_lossy(&list.stdout).into_owned();
    assert!(
        listed.lines().count() >= 5 && listed.contains("kind=check"),
        "{listed}"
    );
    let none = server.command(&["job", "show", "job_none"]);
    assert_eq!(none.status.code(), Some(1));
}
