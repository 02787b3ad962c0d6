//! The port itself: paths, methods, slow clients, health while parts are missing.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{Setup, event, kill};

#[tokio::test]
async fn the_port_answers_as_documented() {
    let setup = Setup::new().with("server.header_timeout", "1s");
    let server = setup.start().await;

    let live = server
        .client
        .get(format!("{}/health/live", server.url))
        .send()
        .await
        .unwrap();
    assert_eq!(live.status(), StatusCode::OK, "live before ready");
    server.ready().await;

    // Clients put addresses together by concatenation.
    for path in [
        "/api/report",
        "//api/report",
        "/api/report/",
        "//api//report//",
    ] {
        let body = json!({"events": [event("slashes", "r", "agent_start", 0)]});
        let (status, answer) = server
            .ask(Method::POST, &server.key, path, Some(body))
            .await;
        assert_eq!(
            (status, &answer["accepted"]),
            (StatusCode::OK, &json!(1)),
            "{path}: {answer}"
        );
    }
    for path in ["/api/run", "/api/run/", "//api/run"] {
        assert_eq!(server.get(path).await.0, StatusCode::OK, "{path}");
    }

    let (status, fault) = server.get("/no/such/thing").await;
    assert_eq!(
        (status, &fault["error"], &fault["status"]),
        (StatusCode::NOT_FOUND, &json!("not_found"), &json!(404))
    );
    for path in ["/api/report", "/api/run", "/health/live"] {
        let (status, fault) = server.ask(Method::DELETE, &server.key, path, None).await;
        assert_eq!(
            (status, &fault["error"]),
            (StatusCode::METHOD_NOT_ALLOWED, &json!("method_not_allowed")),
            "{path}"
        );
    }
    let head = server
        .client
        .head(format!("{}/health/live", server.url))
        .send()
        .await
        .unwrap();
    assert_eq!(head.status(), StatusCode::OK);
    let unknown = server.get_as("sp_key_nobody", "/api/run").await;
    assert_eq!(
        (unknown.0, &unknown.1["error"]),
        (StatusCode::UNAUTHORIZED, &json!("unauthorized"))
    );

    // Nothing at all, and what could still become the preface of HTTP/2.
    for start in [&b""[..], b"PRI * HT"] {
        let mut silent = TcpStream::connect(server.url.trim_start_matches("http://"))
            .await
            .unwrap();
        silent.write_all(start).await.unwrap();
        let mut rest = Vec::new();
        let ended =
            tokio::time::timeout(Duration::from_secs(20), silent.read_to_end(&mut rest)).await;
        assert!(
            ended.is_ok(),
            "a client that says nothing is sent away (X1)"
        );
    }

    let mut slow = TcpStream::connect(server.url.trim_start_matches("http://"))
        .await
        .unwrap();
    slow.write_all(b"GET /health/live HTTP/1.1\r\nHost: ")
        .await
        .unwrap();
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(20), slow.read_to_end(&mut rest)).await;
    assert!(
        ended.is_ok(),
        "a client that never ends its headers is sent away (X1)"
    );
}

#[tokio::test]
async fn reporting_goes_on_and_reading_answers_503_while_the_engine_is_away_r1() {
    let setup = Setup::new();
    let server = setup.start_ready().await;
    let first = server
        .report(&[event("away", "before", "agent_start", 0)])
        .await
        .unwrap();
    assert_eq!(first.status(), StatusCode::OK);

    let engine = server.engine_pid().unwrap();
    kill(engine, rustix::process::Signal::KILL);
    let during = server
        .report(&[event("away", "during", "agent_start", 1)])
        .await
        .unwrap();
    assert_eq!(
        during.status(),
        StatusCode::OK,
        "reporting does not need the engine"
    );
    let (status, fault) = server.get("/api/run?app_id=away").await;
    assert!(
        status == StatusCode::OK
            || (status == StatusCode::SERVICE_UNAVAILABLE && fault["error"] == "unavailable"),
        "{status} {fault}"
    );

    server
        .until("both runs are there", Duration::from_secs(60), async || {
            let (_, page) = server.get("/api/run?app_id=away").await;
            (page["data"].as_array().is_some_and(|runs| runs.len() == 2)).then_some(())
        })
        .await;
    server.ready().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_manage_credentials_and_say_in_one_line_what_is_wrong() {
    let setup = Setup::new();
    let server = setup.start_ready().await;
    let run = |arguments: &[&str]| {
        let output = server.command(arguments);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.success(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };

    let (done, created, error) = run(&["key", "create", "--name", "mine", "--json"]);
    assert!(done, "{error}");
    let created: serde_json::Value = serde_json::from_str(&created).unwrap();
    let (id, secret) = (
        created["id"].as_str().unwrap(),
        created["secret"].as_str().unwrap(),
    );
    assert_eq!(server.get_as(secret, "/api/run").await.0, StatusCode::OK);

    let (_, listed, _) = run(&["key", "list"]);
    assert!(listed.contains(id) && !listed.contains(secret), "{listed}");
    assert!(run(&["key", "revoke", id]).0);
    assert_eq!(
        server.get_as(secret, "/api/run").await.0,
        StatusCode::UNAUTHORIZED,
        "revoked at once"
    );

    let (done, created, error) = run(&["token", "create", "--role", "viewer", "--json"]);
    assert!(done, "{error}");
    let viewer: serde_json::Value = serde_json::from_str(&created).unwrap();
    let viewer = viewer["secret"].as_str().unwrap();
    assert_eq!(server.get_as(viewer, "/api/run").await.0, StatusCode::OK);
    let (done, _, error) = run(&["key", "list", "--token", viewer]);
    assert!(
        !done && error.lines().count() == 1 && error.contains("lacks the permission"),
        "{error}"
    );
    let (done, _, error) = run(&["key", "list", "--token", "sp_tok_nobody"]);
    assert!(
        !done && error.lines().count() == 1 && error.contains("rejected the token"),
        "{error}"
    );
    let (done, _, error) = run(&["key", "list", "--url", "http://127.0.0.1:9"]);
    assert!(
        !done && error.lines().count() == 1 && error.contains("is `spindle serve` running?"),
        "{error}"
    );
}
