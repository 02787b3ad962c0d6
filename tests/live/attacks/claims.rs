//! What only one may have, asked for by several at once: an app without a key, and the last way in.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::{Server, Setup, VISIBLE_WITHIN, event};

/// Tries of two projects for one app. Before claims were exclusive, 24 of 25 had two winners.
const TRIES: usize = 25;

async fn administer(server: &Server, method: Method, path: &str, body: Value) -> Value {
    let path = format!("/api/internal/{path}");
    let asked = server.ask(method, &server.token, &path, Some(body)).await;
    assert!(asked.0.is_success(), "{path}: {asked:?}");
    asked.1
}

/// Two projects ask for the same app again and again, each at one of these servers, and one of them gets it each time.
async fn one_winner_each_time(servers: [&Server; 2]) {
    let projects = ["alpha", "beta"];
    for project in projects {
        administer(
            servers[0],
            Method::POST,
            "projects",
            json!({"project_id": project}),
        )
        .await;
    }
    for attempt in 0..TRIES {
        let app = format!("open-{attempt}");
        let ask = |at: usize| {
            let body = json!({"project_id": projects[at], "keyless_app_ids": [app]});
            let server = servers[at];
            server.ask(
                Method::POST,
                &server.token,
                "/api/internal/projects",
                Some(body),
            )
        };
        let (first, second) = tokio::join!(ask(0), ask(1));
        let mut statuses = [first.0, second.0];
        statuses.sort();
        assert_eq!(
            statuses,
            [StatusCode::OK, StatusCode::CONFLICT],
            "{app}: {first:?} {second:?}"
        );
        let refused = if first.0 == StatusCode::CONFLICT {
            first.1
        } else {
            second.1
        };
        let message = refused["message"].as_str().unwrap();
        assert!(
            message.contains(&app) && !projects.iter().any(|one| message.contains(one)),
            "{message}"
        );
        let kept = servers[0]
            .ask(
                Method::GET,
                &servers[0].token,
                "/api/internal/projects",
                None,
            )
            .await
            .1;
        let owners = kept["data"].as_array().unwrap().iter();
        let owners = owners.filter(|one| one["keyless_app_ids"] == json!([app]));
        assert_eq!(owners.count(), 1, "{kept}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_app_without_a_key_goes_to_one_of_two_projects_that_claim_it_at_once_t1() {
    let setup = Setup::new();
    let server = setup.start_ready().await;
    one_winner_each_time([&server, &server]).await;

    // What is reported without a key belongs to the winner only.
    let app = format!("open-{}", TRIES - 1);
    let kept = server
        .ask(Method::GET, &server.token, "/api/internal/projects", None)
        .await
        .1;
    let owner = kept["data"].as_array().unwrap().iter();
    let mut owner = owner
        .filter(|one| one["keyless_app_ids"] == json!([app]))
        .map(|one| &one["project_id"]);
    let owner = owner.next().unwrap().as_str().unwrap();
    let events = json!({"events": [event(&app, "run-1", "agent_start", 0)]});
    let report = server
        .client
        .post(format!("{}/api/report", server.url))
        .json(&events);
    let answer = report.send().await.unwrap();
    assert!(answer.status().is_success(), "{answer:?}");
    let path = |project: &str| format!("/api/run/run-1?app_id={app}&project_id={project}");
    let seen = async || {
        let (status, _) = server.get_as(&server.token, &path(owner)).await;
        (status == StatusCode::OK).then_some(())
    };
    server
        .until("the run is the winner's", VISIBLE_WITHIN, seen)
        .await;
    let loser = if owner == "alpha" { "beta" } else { "alpha" };
    assert_eq!(
        server.get_as(&server.token, &path(loser)).await.0,
        StatusCode::NOT_FOUND
    );

    the_last_admin_stays(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_app_without_a_key_goes_to_one_of_two_projects_at_two_servers_t1() {
    let setup = Setup::distributed().await;
    let first = setup.start_tier("query").await;
    let mut second = setup.process("query");
    let folder = setup.data().join("query-2");
    *second.arguments.last_mut().unwrap() = folder.into();
    let second = Server::of(second.listening().await, &setup);
    tokio::join!(first.ready(), second.ready());
    one_winner_each_time([&first, &second]).await;
}

/// The only token that lets in an administrator for good cannot be revoked, and of two only one.
async fn the_last_admin_stays(server: &Server) {
    let made = async |body: Value| administer(server, Method::POST, "tokens", body).await;
    let revoke = async |secret: &str, id: &str| {
        let path = format!("/api/internal/tokens/{id}");
        server.ask(Method::DELETE, secret, &path, None).await
    };
    let tokens = administer(server, Method::GET, "tokens", Value::Null).await;
    let last = tokens["data"][0]["id"].as_str().unwrap().to_owned();
    // None of these lets in an administrator of everything for good.
    made(json!({"role": "admin", "projects": ["alpha"]})).await;
    made(json!({"role": "operator"})).await;
    let passing = made(json!({"role": "admin", "expires_in": "1h"})).await;
    let passing = passing["secret"].as_str().unwrap();
    let (status, refused) = revoke(passing, &last).await;
    assert_eq!(status, StatusCode::CONFLICT, "{refused}");
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.contains(&last) && message.contains("make another"),
        "{message}"
    );

    for _ in 0..5 {
        let second = made(json!({"role": "admin"})).await;
        let second = second["id"].as_str().unwrap();
        let (one, other) = tokio::join!(revoke(passing, &last), revoke(passing, second));
        let mut statuses = [one.0, other.0];
        statuses.sort();
        assert_eq!(
            statuses,
            [StatusCode::OK, StatusCode::CONFLICT],
            "{one:?} {other:?}"
        );
        if one.0 == StatusCode::OK {
            // The first one is gone, and with it what the rest of this test asks with.
            return;
        }
    }
}
