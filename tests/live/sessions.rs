//! Who signed in stays so in every process and over a restart, until they sign out or what they signed in with ends.

use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use crate::access::trusting;
use crate::harness::{Server, Setup, event};
use crate::provider::{Provider, Signer};

crate::harness::both_ways!(a_session_is_known_everywhere_until_it_ends);

const PATH: &str = "/api/session";
/// From an end in one process until another knows it, on a busy computer: before it would have looked by itself.
const TOLD_WITHIN: Duration = Duration::from_secs(4);
/// From an end by the clock until it is acted on, on a busy computer.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

fn request(server: &Server, method: Method, path: &str) -> RequestBuilder {
    let request = server
        .client
        .request(method, format!("{}{path}", server.url));
    request.timeout(Duration::from_secs(60))
}

/// Signs in; the cookie as a browser sends it, and who it is.
async fn sign_in(server: &Server, token: &str) -> (String, Value) {
    let body = json!({ "token": token });
    let answer = request(server, Method::POST, PATH).json(&body).send().await;
    let answer = answer.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let kept = answer.headers()["set-cookie"].to_str().unwrap().to_owned();
    let (cookie, attributes) = kept.split_once("; ").unwrap();
    assert!(attributes.starts_with("HttpOnly; SameSite=Strict; Path=/; Max-Age="));
    (cookie.to_owned(), answer.json().await.unwrap())
}

async fn send(server: &Server, method: Method, path: &str, cookie: &str) -> Response {
    let request = request(server, method, path).header("cookie", cookie);
    request.send().await.unwrap()
}

async fn status(server: &Server, cookie: &str) -> StatusCode {
    send(server, Method::GET, "/api/run", cookie).await.status()
}

async fn until_over(server: &Server, cookie: &str, within: Duration) {
    let is_over = async || (status(server, cookie).await == StatusCode::UNAUTHORIZED).then_some(());
    server.until("the session is over", within, is_over).await;
}

/// Makes a token; its id and its secret.
async fn token(server: &Server, body: Value) -> (String, String) {
    let path = "/api/internal/tokens";
    let (status, made) = server
        .ask(Method::POST, &server.token, path, Some(body))
        .await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    (text("id"), text("secret"))
}

async fn a_session_is_known_everywhere_until_it_ends(setup: Setup) {
    let key = Signer::new("current");
    let provider = Provider::publishing(&[&key]).await;
    let setup = trusting(setup, &provider);
    let mut server = setup.start_ready().await;
    let (id, viewer) = token(&server, json!({"role": "viewer", "name": "ada"})).await;
    server.informed().await;
    let (first, who) = sign_in(&server, &viewer).await;
    assert_eq!(
        (&who["name"], &who["roles"]),
        (&json!("ada"), &json!(["viewer"]))
    );
    let (second, _) = sign_in(&server, &viewer).await;

    // Reports come from programs, which have keys.
    let report = request(&server, Method::POST, "/api/report").header("cookie", &first);
    let report = report.json(&json!({"events": [event("a", "r", "agent_start", 0)]}));
    assert_eq!(
        report.send().await.unwrap().status(),
        StatusCode::UNAUTHORIZED
    );

    // Power goes and comes back; the sessions are there.
    server.kill();
    let server = setup.start_ready().await;
    assert_eq!(status(&server, &first).await, StatusCode::OK);

    // Another process knows the session that the first one made, and its end. A stream ends with it.
    let other = match &setup.backing {
        Some(_) => Some(setup.start_tier("query").await),
        None => None,
    };
    let other = other.as_ref().unwrap_or(&server);
    other.ready().await;
    server.connected().await;
    other.connected().await;
    assert_eq!(status(other, &first).await, StatusCode::OK);
    let mut stream = send(other, Method::GET, "/api/run/live", &first).await;
    assert_eq!(stream.status(), StatusCode::OK);
    let out = send(&server, Method::DELETE, PATH, &first).await;
    assert_eq!(out.status(), StatusCode::NO_CONTENT);
    assert_eq!(status(&server, &first).await, StatusCode::UNAUTHORIZED);
    until_over(other, &first, TOLD_WITHIN).await;
    let to_its_end = async { while let Ok(Some(_)) = stream.chunk().await {} };
    tokio::time::timeout(ENDS_WITHIN, to_its_end)
        .await
        .expect("a stream goes on though its session has ended");

    // Revoking the token ends the others.
    assert_eq!(status(other, &second).await, StatusCode::OK);
    let path = format!("/api/internal/tokens/{id}");
    let (revoked, _) = server.ask(Method::DELETE, &server.token, &path, None).await;
    assert_eq!(revoked, StatusCode::OK);
    assert_eq!(status(&server, &second).await, StatusCode::UNAUTHORIZED);
    until_over(other, &second, TOLD_WITHIN).await;

    // People are who the provider said, until their token ends.
    let jwt = key.sign(&provider.claims("u-1", &["rule", "unknown"], 3600));
    let (lasting, who) = sign_in(&server, &jwt).await;
    assert_eq!(
        (&who["kind"], &who["id"]),
        (&json!("person"), &json!("u-1"))
    );
    assert_eq!(
        who["roles"],
        json!(["viewer", "starter", "operator", "admin"])
    );
    let brief = key.sign(&provider.claims("u-1", &["see"], 2));
    let (brief, who) = sign_in(&server, &brief).await;
    assert_eq!(who["roles"], json!(["viewer"]));
    until_over(other, &brief, ENDS_WITHIN).await;
    // The provider is not asked again.
    provider.leave(true);
    for server in [&server, other] {
        let answer = send(server, Method::GET, "/api/internal/tokens", &lasting).await;
        assert_eq!(answer.status(), StatusCode::OK);
    }

    let logged = setup.logged();
    assert!(logged.contains("audit.action=\"sign_in\""), "{logged}");
    assert!(logged.contains("audit.action=\"sign_out\""), "{logged}");
    for secret in [&viewer, &first, &second, &lasting, &jwt] {
        let secret = secret.trim_start_matches("spindle_session=");
        assert!(!logged.contains(secret), "x2");
    }
}
