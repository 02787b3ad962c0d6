//! Schemas of processes: an administrator of a project registers them, and every start is validated against one.

use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Server, Setup};

/// A check is answered within two and a half seconds; the rest is a busy machine.
const ANSWERED_WITHIN: Duration = Duration::from_secs(15);
/// Requests in flight are given 20 s to end.
const ENDS_WITHIN: Duration = Duration::from_secs(40);
/// Starts at once: as many as there are checks, and more that wait.
const STARTS: usize = 12;

/// Definitions that each apply the next one twice to the value itself.
fn doubled(levels: usize) -> Value {
    let mut defs = json!({format!("a{levels}"): {}});
    for level in 0..levels {
        let next = json!({"$ref": format!("#/$defs/a{}", level + 1)});
        defs[format!("a{level}")] = json!({"allOf": [next, next]});
    }
    json!({"$defs": defs, "$ref": "#/$defs/a0"})
}

async fn register(server: &Server, admin: &str, build: &str, schema: Value) -> (StatusCode, Value) {
    let body = json!({"status": "COMMITTED", "processes": [{"name": "Order", "schema": schema}]});
    let path = format!("/api/platform/app/shop/build/{build}");
    server.ask(Method::PUT, admin, &path, Some(body)).await
}

async fn start(server: &Server, admin: &str, build: &str, body: &Value) -> (u16, Value) {
    let path = format!("/rtm/api/runtime/app/shop/build/{build}/process-name/Order/start");
    let request = server
        .client
        .post(format!("{}{path}", server.url))
        .bearer_auth(admin)
        .header("svc-platform", "web")
        .json(body);
    let answer = request.timeout(ANSWERED_WITHIN).send().await.unwrap();
    (
        answer.status().as_u16(),
        answer.json().await.unwrap_or_default(),
    )
}

/// An admin of one project, who administers no other.
async fn admin_of(server: &Server, project: &str) -> String {
    for (path, body) in [
        ("projects", json!({"project_id": project})),
        ("tokens", json!({"role": "admin", "projects": [project]})),
    ] {
        let path = format!("/api/internal/{path}");
        let asked = server.ask(Method::POST, &server.token, &path, Some(body));
        let (status, answer) = asked.await;
        assert!(status.is_success(), "{answer}");
        if let Some(secret) = answer["secret"].as_str() {
            return secret.to_owned();
        }
    }
    panic!("no token was made");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_of_one_project_stops_neither_the_others_nor_sigterm_x1() {
    let setup = Setup::new();
    let mut server = setup.start_ready().await;
    let (theirs, ours) = (
        admin_of(&server, "theirs").await,
        admin_of(&server, "ours").await,
    );

    // What asks for 2^60 checks of one value is not accepted.
    let (status, refused) = register(&server, &theirs, "b60", doubled(60)).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{refused}");
    let message = refused["message"].as_str().unwrap();
    for named in ["processes[0].schema", "at most 50000", "`$ref`"] {
        assert!(message.contains(named), "{message}");
    }

    // What doubles with each level of the body is, and every start of it ends.
    let next = json!({"$ref": "#/$defs/n"});
    let doubling = json!({"$defs": {"n": {"properties": {"c": {"allOf": [next, next]}}}}, "$ref": "#/$defs/n"});
    let (status, answer) = register(&server, &theirs, "b1", doubling).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let (status, answer) = register(&server, &ours, "b1", json!({"required": ["key"]})).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let deep = (0..120).fold(json!(1), |value, _| json!({"c": value}));
    let heavy = || async {
        let starts = (0..STARTS).map(|_| start(&server, &theirs, "b1", &deep));
        futures::future::join_all(starts).await
    };
    let light = async {
        let began = Instant::now();
        for _ in 0..5 {
            let (status, answer) = start(&server, &ours, "b1", &json!({"key": 1})).await;
            assert_eq!(status, 200, "{answer}");
            let health = server.client.get(format!("{}/health/live", server.url));
            assert_eq!(health.send().await.unwrap().status(), StatusCode::OK);
        }
        began.elapsed()
    };
    let (answers, took) = tokio::join!(heavy(), light);
    assert!(took < ANSWERED_WITHIN, "{took:?}");
    for (status, answer) in answers {
        let code = answer["error"].as_str().unwrap_or_default();
        let codes = [
            "schema_too_expensive",
            "schema_check_timeout",
            "too_many_checks",
        ];
        assert!(codes.contains(&code), "{status} {answer}");
    }

    // SIGTERM ends the process while checks are under way.
    let url = format!(
        "{}/rtm/api/runtime/app/shop/build/b1/process-name/Order/start",
        server.url
    );
    let request = server.client.post(url).bearer_auth(&theirs);
    let request = request.header("svc-platform", "web").json(&deep);
    let again = || {
        let request = request.try_clone().unwrap();
        async move { request.send().await.is_ok() }
    };
    let until_gone = async { while again().await {} };
    tokio::join!(until_gone, async {
        assert!(again().await);
        server.signal(Signal::TERM);
    });
    assert_eq!(
        server.ended(ENDS_WITHIN).await,
        Some(0),
        "{}",
        setup.logged()
    );
}
