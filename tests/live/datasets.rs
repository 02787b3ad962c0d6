//! What people do with runs, and what they take away: judged, saved, exported, with the connection cut on the way.

use std::collections::BTreeSet;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use reqwest::{Method, Response, StatusCode};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Server, Setup, VISIBLE_WITHIN, event, kill};

crate::harness::both_ways!(
    what_is_judged_and_saved_over_the_api_is_on_the_run_and_in_the_dataset_p4
);

async fn what_is_judged_and_saved_over_the_api_is_on_the_run_and_in_the_dataset_p4(setup: Setup) {
    let server = setup.start_ready().await;
    let mut call = event("data", "call", "llm_call", 1000);
    call["type"] = json!("llm");
    call["input"] = json!([{"role": "user", "content": "why?"}]);
    call["output"] = json!({"role": "assistant", "content": "because"});
    let other = event("data", "other", "agent_start", 2000);
    assert_eq!(
        server.report(&[call, other]).await.unwrap().status(),
        StatusCode::OK
    );
    server
        .until("the runs are there", VISIBLE_WITHIN, async || {
            (server.all_runs("data").await?.len() == 2).then_some(())
        })
        .await;

    let judged = json!({"rating": "negative", "comment": "no", "event_id": "f", "timestamp": "2026-11-20T10:00:00Z"});
    for (path, body) in [
        ("feedback", Some(judged.clone())),
        // Sent again, it changes nothing.
        ("feedback", Some(judged)),
        ("feedback", Some(json!({"rating": "positive"}))),
        ("save", None),
    ] {
        let path = format!("/api/run/call/{path}");
        let (status, answer) = server.ask(Method::POST, &setup.key, &path, body).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    }
    let run = server
        .until("it is saved and judged", VISIBLE_WITHIN, async || {
            let (_, run) = server.get("/api/run/call").await;
            // The feedback of an older day is stored a step later than the rest.
            let is_whole = run["feedback_history"].as_array()?.len() >= 2;
            let is_judged = run["saved"] == true && run["feedback"]["rating"] == "positive";
            (is_whole && is_judged).then_some(run)
        })
        .await;
    assert_eq!(
        run["feedback_history"].as_array().unwrap().len(),
        2,
        "{run}"
    );
    let (_, page) = server.get("/api/dataset/").await;
    assert_eq!(page["data"][0]["run_id"], json!("call"), "{page}");
    let (_, line) = server.get("/api/dataset/export?format=openai-jsonl").await;
    assert_eq!(line["messages"][1]["content"], json!("because"), "{line}");
    let (_, whole) = server.get("/api/dataset/export").await;
    assert_eq!(whole["input"][0]["content"], json!("why?"));
    for encoding in ["gzip", "br", "zstd", "deflate"] {
        let request = reqwest::Client::new()
            .get(format!("{}/api/run/export?format=csv", server.url))
            .bearer_auth(&server.key)
            .header("accept-encoding", encoding);
        let answer = request.send().await.unwrap();
        assert_eq!(answer.headers()["content-encoding"], encoding);
        let bytes = answer.bytes().await;
        assert!(
            bytes.is_ok_and(|bytes| bytes.len() > 100),
            "{encoding}: a whole answer"
        );
    }

    let (status, _) = server
        .ask(Method::POST, &setup.token, "/api/run/call/unsave", None)
        .await;
    assert_eq!(status, StatusCode::ACCEPTED);
    server
        .until("the dataset is empty", VISIBLE_WITHIN, async || {
            let (_, page) = server.get("/api/dataset").await;
            (page["data"] == json!([])).then_some(())
        })
        .await;
    server
        .until(
            "every accepted event is stored",
            VISIBLE_WITHIN,
            async || {
                let accepted = server.metric("spindle_ingest_accepted_events_total").await;
                let stored = server.metric("spindle_processor_stored_events_total").await;
                assert_eq!(accepted, 7.0);
                (accepted == stored).then_some(())
            },
        )
        .await;
}

/// Asks for a download; `None` when there is no answer but a refusal.
async fn open(server: &Server, path: &str) -> Option<Response> {
    let request = reqwest::Client::new()
        .get(format!("{}{path}", server.url))
        .bearer_auth(&server.key);
    let answer = request.send().await.ok()?;
    (answer.status() == StatusCode::OK).then_some(answer)
}

/// Opens it on a connection of its own that takes little more than what is read: the kernel may otherwise take the whole
/// answer before a byte of it is read.
async fn open_slowly(server: &Server, path: &str) -> hyper::Response<hyper::body::Incoming> {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 << 10).unwrap();
    let address = server.url.strip_prefix("http://").unwrap();
    let stream = socket.connect(address.parse().unwrap()).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    let request = hyper::Request::get(path)
        .header("host", address)
        .header("authorization", format!("Bearer {}", server.key))
        .body(Empty::<Bytes>::new())
        .unwrap();
    let answer = sender.send_request(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    answer
}

/// Reads until the end or a fault: whole lines only, and whether the end was clean.
async fn lines<E>(mut body: impl Stream<Item = Result<Bytes, E>> + Unpin) -> (Vec<Value>, bool) {
    let (mut bytes, mut is_whole) = (Vec::new(), true);
    while let Some(piece) = body.next().await {
        match piece {
            Ok(piece) => bytes.extend_from_slice(&piece),
            Err(_) => is_whole = false,
        }
    }
    let end = bytes
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    let text = std::str::from_utf8(&bytes[..end]).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    (lines.collect(), is_whole)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_download_during_which_the_engine_is_killed_is_seen_to_be_cut_and_goes_on_r1() {
    const RUNS: usize = 40_000;
    let setup = Setup::new();
    let server = setup.start_ready().await;
    let names: Vec<String> = (0..RUNS).map(|n| format!("run-{n:05}")).collect();
    for (batch, names) in names.chunks(2000).enumerate() {
        let events: Vec<Value> = names
            .iter()
            .enumerate()
            .map(|(n, name)| event("cut", name, "agent_start", ((batch * 2000 + n) / 3) as i64))
            .collect();
        assert_eq!(
            server.report(&events).await.unwrap().status(),
            StatusCode::OK
        );
    }
    server
        .until("all are stored", VISIBLE_WITHIN, async || {
            let stored = server.metric("spindle_processor_stored_events_total").await;
            (stored == RUNS as f64).then_some(())
        })
        .await;
    let path = "/api/run/export?app_id=cut";
    // The export waits for its reader: the engine dies while most of the runs are still in the tables.
    let answer = open_slowly(&server, path).await;
    kill(server.engine_pid().unwrap(), Signal::KILL);
    let (mut runs, is_whole) = lines(answer.into_data_stream()).await;
    assert!(!is_whole && runs.len() < RUNS, "{} runs came", runs.len());
    server.ready().await;
    let rest = async || {
        let text = |name: &str| runs.last().map_or("", |run| run[name].as_str().unwrap());
        let after = format!(
            "&after_started_at={}&after_app_id={}&after_run_id={}",
            text("started_at"),
            text("app_id"),
            text("run_id")
        );
        let (rest, is_whole) = {
            let answer = open(&server, &format!("{path}{after}")).await?;
            lines(answer.bytes_stream()).await
        };
        is_whole.then_some(rest)
    };
    let rest = server.until("the rest came", VISIBLE_WITHIN, rest).await;
    runs.extend(rest);
    let found: Vec<&str> = runs
        .iter()
        .map(|run| run["run_id"].as_str().unwrap())
        .collect();
    assert_eq!(found.len(), RUNS);
    assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), RUNS);
}
