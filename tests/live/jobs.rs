//! Long work with the real binary: commands, and `kill -9` of the server in the middle (R1, S1, P5).

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::{Server, Setup, VISIBLE_WITHIN};

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
    let at = format!("/api/internal/jobs/{}", job["job_id"].as_str().unwrap());
    let over = server
        .until("the job is over", VISIBLE_WITHIN, async || {
            let (_, job) = server.get_as(&server.token, &at).await;
            let state = job["state"].as_str()?.to_owned();
            (state != "queued" && state != "running").then_some(job)
        })
        .await;
    assert_eq!(over["state"], "done", "{over}");
    server
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
    let server = killed_during(&setup, server, "/api/internal/cost/recalculate", 60).await;
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

    let server = killed_during(&setup, server, "/api/internal/rebuild", 150).await;
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
