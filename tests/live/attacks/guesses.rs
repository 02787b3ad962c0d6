//! Guesses of credentials: limited by address, and never in the way of those who have one.

use std::net::{IpAddr, Ipv4Addr};

use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::{Server, Setup, event};

/// A client with an address of its own.
fn client(host: u8) -> Client {
    let address = IpAddr::from(Ipv4Addr::new(127, 0, 0, host));
    Client::builder().local_address(address).build().unwrap()
}

fn guess() -> String {
    format!(
        "sp_key_{:032x}{:032x}",
        rand::random::<u128>(),
        rand::random::<u128>()
    )
}

async fn ask(
    server: &Server,
    client: &Client,
    (method, path): (Method, &str),
    secret: &str,
) -> (StatusCode, Option<u32>) {
    let request = client.request(method, format!("{}{path}", server.url));
    let body = json!({"events": [event("guessed", "r", "agent_start", 0)]});
    let answer = request
        .bearer_auth(secret)
        .json(&body)
        .send()
        .await
        .unwrap();
    let wait = answer.headers().get("retry-after");
    let wait = wait.and_then(|value| value.to_str().ok()?.parse().ok());
    (answer.status(), wait)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guesses_are_limited_by_address_and_known_credentials_never_are_x1() {
    const LIMIT: usize = 20;
    let setup = Setup::new().with("auth.failures_per_minute", &LIMIT.to_string());
    let server = setup.start_ready().await;
    let (report, read, export) = (
        (Method::POST, "/api/report"),
        (Method::GET, "/api/run"),
        (Method::POST, "/v1/traces"),
    );
    // Both tiers and every form count together.
    let stranger = client(2);
    let mut limited = None;
    for number in 0..10 * LIMIT {
        let route = [&report, &read, &export][number % 3].clone();
        let (status, wait) = ask(&server, &stranger, route, &guess()).await;
        if status == StatusCode::TOO_MANY_REQUESTS {
            assert!(
                wait.is_some_and(|wait| (1..=60).contains(&wait)),
                "{wait:?}"
            );
            limited = Some(number);
            break;
        }
        assert_eq!(status, StatusCode::UNAUTHORIZED);
    }
    // Some were given back while this ran.
    let limited = limited.expect("the address is limited");
    assert!(limited >= LIMIT, "{limited}");

    // Known credentials of the same address, also as the second of a pair of which the first is unknown.
    for _ in 0..3 {
        assert_eq!(
            ask(&server, &stranger, report.clone(), &server.key).await.0,
            StatusCode::OK
        );
        assert_eq!(
            ask(&server, &stranger, read.clone(), &server.token).await.0,
            StatusCode::OK
        );
    }
    let pair = stranger
        .get(format!("{}/api/run", server.url))
        .basic_auth(&server.key, Some(guess()));
    assert_eq!(pair.send().await.unwrap().status(), StatusCode::OK);
    // Another address, which is not limited, gets to know that its guess is none.
    let (status, _) = ask(&server, &client(3), report.clone(), &guess()).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    // One that signs in, or has the cookie of no session, is limited as well.
    drain(&server, &stranger).await;
    let sign_in = stranger.post(format!("{}/api/session", server.url));
    let sign_in = sign_in
        .json(&json!({"token": guess()}))
        .send()
        .await
        .unwrap();
    assert_eq!(sign_in.status(), StatusCode::TOO_MANY_REQUESTS);
    let fault: Value = sign_in.json().await.unwrap();
    assert_eq!(fault["error"], "too_many_failures");

    let limited = server
        .metric("spindle_store_credential_failures_total")
        .await;
    assert!(limited > LIMIT as f64, "{limited}");
    let logged = setup.logged();
    let lines = logged
        .lines()
        .filter(|line| line.contains("client.address=127.0.0.2"));
    assert_eq!(lines.count(), 1, "one line for an address in a minute");
    assert!(!logged.contains("sp_key_"), "(X2)");
}

/// Uses up what was given back meanwhile.
async fn drain(server: &Server, client: &Client) {
    loop {
        let (status, _) = ask(server, client, (Method::GET, "/api/run"), &guess()).await;
        if status == StatusCode::TOO_MANY_REQUESTS {
            return;
        }
    }
}
