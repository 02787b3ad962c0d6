//! One tenant takes all that it can get, and another one goes on as if it were alone.

use std::time::{Duration, Instant};

use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::harness::{Server, Setup, VISIBLE_WITHIN, event};

/// Streams that one credential and one project may have open, and exports of one credential.
const STREAMS: (usize, usize) = (8, 16);
/// Reads at once of one credential: more than have a share and may wait.
const READS: usize = 120;
/// A list of a few runs, on a busy machine, while another tenant asks for as much as it can.
const LISTED_WITHIN: Duration = Duration::from_secs(10);

async fn key_of(server: &Server, project: &str) -> String {
    let ask = async |path: &str, body: Value| {
        let path = format!("/api/internal/{path}");
        let asked = server.ask(Method::POST, &server.token, &path, Some(body));
        let (status, answer) = asked.await;
        assert!(status.is_success(), "{answer}");
        answer
    };
    ask("projects", json!({"project_id": project})).await;
    let key = ask(
        "keys",
        json!({"project_id": project, "scopes": ["report", "read"]}),
    )
    .await;
    key["secret"].as_str().unwrap().to_owned()
}

async fn get(server: &Server, key: &str, path: &str) -> Response {
    let request = server.client.get(format!("{}{path}", server.url));
    request.bearer_auth(key).send().await.unwrap()
}

/// The refusal of a share that is used up.
async fn refused(answer: Response) -> Value {
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(answer.headers().contains_key("retry-after"));
    let body: Value = answer.json().await.unwrap();
    assert_eq!(body["error"], json!("over_share"), "{body}");
    body
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_that_takes_all_it_can_leaves_the_others_their_share_x1() {
    let setup = Setup::new();
    let server = setup.start_ready().await;
    let mut greedy = Vec::new();
    for _ in 0..3 {
        greedy.push(key_of(&server, "greedy").await);
    }
    let modest = key_of(&server, "modest").await;
    for (key, app) in [(&greedy[0], "g"), (&modest, "m")] {
        let events: Vec<Value> = (0..20)
            .map(|n| event(app, &format!("run-{n}"), "agent_start", n))
            .collect();
        let answer = server.report_as(key, &events).await.unwrap();
        assert!(answer.status().is_success(), "{answer:?}");
    }
    server
        .until("the runs are there", VISIBLE_WITHIN, async || {
            let listed = server.get_as(&modest, "/api/run/").await.1;
            (listed["data"].as_array()?.len() == 20).then_some(())
        })
        .await;

    // Streams: half of them for a project, and half of those for a credential.
    let (each, project) = STREAMS;
    let mut streams = Vec::new();
    for key in &greedy[..project / each] {
        for _ in 0..each {
            let stream = get(&server, key, "/api/run/live").await;
            assert_eq!(stream.status(), StatusCode::OK);
            streams.push(stream);
        }
        let body = refused(get(&server, key, "/api/run/live").await).await;
        assert!(
            body["message"]
                .as_str()
                .unwrap()
                .contains("this credential"),
            "{body}"
        );
    }
    let body = refused(get(&server, &greedy[2], "/api/run/live").await).await;
    assert!(
        body["message"].as_str().unwrap().contains("its project"),
        "{body}"
    );
    for _ in 0..each {
        let stream = get(&server, &modest, "/api/run/live").await;
        assert_eq!(stream.status(), StatusCode::OK);
        streams.push(stream);
    }

    // Reads of one credential wait for each other; reads of other tenants do not wait for them.
    let heavy = async {
        let reads = (0..READS).map(|_| get(&server, &greedy[0], "/api/run/facets"));
        futures::future::join_all(reads).await
    };
    let light = async {
        for _ in 0..10 {
            let began = Instant::now();
            let listed = get(&server, &modest, "/api/run/?limit=5").await;
            assert_eq!(listed.status(), StatusCode::OK);
            assert!(began.elapsed() < LISTED_WITHIN, "{:?}", began.elapsed());
        }
    };
    let (answers, ()) = tokio::join!(heavy, light);
    for answer in answers {
        if answer.status() == StatusCode::TOO_MANY_REQUESTS {
            refused(answer).await;
            continue;
        }
        let statuses = [StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE];
        assert!(statuses.contains(&answer.status()), "{answer:?}");
    }
    drop(streams);
}
