//! Sign-in, permissions and end of sessions.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode};
use axum::response::Response;
use prometheus::Registry;
use query::{QueryState, SessionRules};
use schemas::credential::{Role, Scope};
use serde_json::{Value, json};
use store::credentials::Credentials;
use store::prices::Prices;
use tower::ServiceExt;

use crate::tier::Tier;

const PATH: &str = "/api/session";
const RUNS: &str = "/api/run";

/// What was answered.
struct Answer {
    status: StatusCode,
    set_cookie: Option<String>,
    body: Value,
}

impl Answer {
    async fn of(response: Response) -> Self {
        let set_cookie = response.headers().get("set-cookie");
        Self {
            status: response.status(),
            set_cookie: set_cookie.map(|value| value.to_str().unwrap().to_owned()),
            body: serde_json::from_slice(&to_bytes(response.into_body(), 1 << 20).await.unwrap())
                .unwrap_or_default(),
        }
    }

    /// The cookie as the browser sends it.
    fn cookie(&self) -> String {
        let kept = self.set_cookie.as_deref().unwrap();
        kept.split(';').next().unwrap().to_owned()
    }
}

async fn ask(
    router: &Router,
    (method, path): (Method, &str),
    headers: &[(&str, &str)],
    body: Value,
) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = match body {
        Value::Null => Body::empty(),
        body => Body::from(body.to_string()),
    };
    let asked = router.clone().oneshot(request.body(body).unwrap());
    Answer::of(asked.await.unwrap()).await
}

async fn sign_in(router: &Router, token: &str, headers: &[(&str, &str)]) -> Answer {
    ask(
        router,
        (Method::POST, PATH),
        headers,
        json!({ "token": token }),
    )
    .await
}

async fn read(router: &Router, cookie: &str, path: &str) -> Answer {
    ask(
        router,
        (Method::GET, path),
        &[("cookie", cookie)],
        Value::Null,
    )
    .await
}

async fn sign_out(router: &Router, cookie: &str) -> Answer {
    ask(
        router,
        (Method::DELETE, PATH),
        &[("cookie", cookie)],
        Value::Null,
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_valid_in_every_process_until_the_sign_out() {
    let tier = Tier::new().await;
    let token = tier.token(Role::Operator, Some(&["ours"])).await;
    let signed_in = sign_in(&tier.router, &token, &[]).await;
    assert_eq!(signed_in.status, StatusCode::OK);
    let kept = signed_in.set_cookie.as_deref().unwrap();
    let (secret, attributes) = kept.split_once("; ").unwrap();
    assert!(secret.len() > 64 && !kept.contains(&token), "{kept}");
    let expected = "HttpOnly; SameSite=Strict; Path=/; Max-Age=43200";
    assert_eq!(attributes, expected);
    let who = &signed_in.body;
    assert_eq!(who["kind"], "token");
    assert_eq!(who["name"], who["id"], "it has no name");
    assert_eq!(who["roles"], json!(["viewer", "starter", "operator"]));
    assert_eq!(who["projects"], json!(["ours"]));
    assert!(who["expires_at"].is_string());
    assert!(!who.to_string().contains("sp_"), "{who}");

    let cookie = signed_in.cookie();
    assert_eq!(read(&tier.router, &cookie, PATH).await.body, *who);
    let store = tier.store.of_several().unwrap();
    let known_elsewhere = Credentials::new(store.clone());
    let prices = Prices::new(store.clone()).unwrap();
    let elsewhere = QueryState::new(store, known_elsewhere.clone(), prices, &Registry::new());
    let elsewhere = query::router(elsewhere.unwrap());
    for router in [&tier.router, &elsewhere] {
        assert_eq!(read(router, &cookie, RUNS).await.status, StatusCode::OK);
        let theirs = read(router, &cookie, "/api/run?project_id=theirs").await;
        assert_eq!(theirs.status, StatusCode::FORBIDDEN);
        let admin = read(router, &cookie, "/api/internal/tokens").await;
        assert_eq!(admin.status, StatusCode::FORBIDDEN);
    }
    // A session secret is not a token, and `Authorization` takes precedence over the cookie.
    let (_, bare) = cookie.split_once('=').unwrap();
    let bearer = format!("Bearer {bare}");
    let headers = [
        ("authorization", bearer.as_str()),
        ("cookie", cookie.as_str()),
    ];
    let as_token = ask(&tier.router, (Method::GET, PATH), &headers, Value::Null).await;
    assert_eq!(as_token.status, StatusCode::UNAUTHORIZED);
    let other = sign_in(&tier.router, bare, &[]).await;
    assert_eq!(other.status, StatusCode::UNAUTHORIZED);

    // The other process refreshed before the sign-out.
    known_elsewhere.refresh().await.unwrap();
    assert_eq!(read(&elsewhere, &cookie, RUNS).await.status, StatusCode::OK);
    let out = sign_out(&tier.router, &cookie).await;
    assert_eq!(out.status, StatusCode::NO_CONTENT);
    assert_eq!(read(&elsewhere, &cookie, RUNS).await.status, StatusCode::OK);
    let forgotten = out.set_cookie.unwrap();
    assert!(forgotten.starts_with("spindle_session=; ") && forgotten.contains("Max-Age=0"));
    // Every process refreshes after a control message, and every few seconds.
    known_elsewhere.refresh().await.unwrap();
    let over = read(&elsewhere, &cookie, RUNS).await;
    assert_eq!(over.status, StatusCode::UNAUTHORIZED);
    let over = read(&tier.router, &cookie, RUNS).await;
    assert_eq!(over.status, StatusCode::UNAUTHORIZED);
    assert!(over.body["message"].to_string().contains("sign in again"));
    for cookie in [cookie.as_str(), "spindle_session=unknown", "a=b"] {
        let again = sign_out(&tier.router, cookie).await;
        assert_eq!(again.status, StatusCode::NO_CONTENT);
    }
    // The token itself goes on.
    assert_eq!(tier.get(&token, RUNS).await.0, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_with_its_token_and_with_its_time() {
    let tier = Tier::new().await;
    let token = tier.token(Role::Viewer, None).await;
    let cookie = sign_in(&tier.router, &token, &[]).await.cookie();
    assert_eq!(
        read(&tier.router, &cookie, RUNS).await.status,
        StatusCode::OK
    );
    let made = tier.credentials.tokens().await.unwrap().remove(0);
    assert!(tier.credentials.revoke_token(&made.id).await.unwrap());
    for path in [RUNS, PATH] {
        let refused = read(&tier.router, &cookie, path).await;
        assert_eq!(refused.status, StatusCode::UNAUTHORIZED, "{path}");
    }
    let revoked = sign_in(&tier.router, &token, &[]).await;
    assert_eq!(revoked.status, StatusCode::UNAUTHORIZED);
    assert_eq!(revoked.set_cookie, None);

    // Its own time, and that of a token that ends before.
    let token = tier.token(Role::Viewer, None).await;
    let short = SessionRules {
        lifetime: Duration::from_millis(1),
        ..SessionRules::default()
    };
    let router = query::router(tier.state.clone().signing_in(short));
    let cookie = sign_in(&router, &token, &[]).await.cookie();
    let over = read(&router, &cookie, RUNS).await;
    assert_eq!(over.status, StatusCode::UNAUTHORIZED);
    let admin = tier.token(Role::Admin, None).await;
    let (_, made) = tier
        .ask(
            Method::POST,
            &admin,
            "/api/internal/tokens",
            Some(json!({"role": "viewer", "name": "ada", "expires_in": "1h"})),
        )
        .await;
    let secret = made["secret"].as_str().unwrap();
    let signed_in = sign_in(&tier.router, secret, &[]).await;
    assert_eq!(signed_in.body["expires_at"], made["expires_at"]);
    assert_eq!(signed_in.body["name"], "ada");
    let kept = signed_in.set_cookie.unwrap();
    assert!(
        kept.contains("Max-Age=35") || kept.contains("Max-Age=3600"),
        "{kept}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_has_a_bounded_number_of_sessions_and_the_oldest_goes_x1() {
    let tier = Tier::new().await;
    let token = tier.token(Role::Viewer, None).await;
    let mut cookies = Vec::new();
    for _ in 0..store::credentials::SESSIONS_EACH + 1 {
        cookies.push(sign_in(&tier.router, &token, &[]).await.cookie());
    }
    let status = async |cookie: &str| read(&tier.router, cookie, PATH).await.status;
    assert_eq!(status(&cookies[0]).await, StatusCode::UNAUTHORIZED);
    assert_eq!(status(&cookies[1]).await, StatusCode::OK);
    assert_eq!(status(cookies.last().unwrap()).await, StatusCode::OK);
    // Who signs in again in the same browser leaves nothing behind.
    let again = sign_in(&tier.router, &token, &[("cookie", &cookies[5])]).await;
    assert_eq!(status(&cookies[5]).await, StatusCode::UNAUTHORIZED);
    assert_eq!(status(&again.cookie()).await, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_tokens_sign_in_and_errors_name_the_reason() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Report, Scope::Read]).await;
    let refused = sign_in(&tier.router, &key, &[]).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    assert!(refused.body["message"].to_string().contains("for programs"));
    assert_eq!(refused.set_cookie, None);
    assert_eq!(tier.get(&key, PATH).await.0, StatusCode::FORBIDDEN);
    assert_eq!(tier.get("", PATH).await.0, StatusCode::UNAUTHORIZED);
    let token = tier.token(Role::Admin, None).await;
    let (status, who) = tier.get(&token, PATH).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        (&who["expires_at"], &who["projects"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(
        who["roles"],
        json!(["viewer", "starter", "operator", "admin"])
    );

    let post = async |body: Value, path: &str| {
        ask(&tier.router, (Method::POST, path), &[], body)
            .await
            .status
    };
    assert_eq!(
        post(json!({"token": "sp_tok_unknown"}), PATH).await,
        StatusCode::UNAUTHORIZED
    );
    assert_eq!(
        post(json!({"token": "x".repeat(9000)}), PATH).await,
        StatusCode::UNAUTHORIZED
    );
    for bad in [
        json!({}),
        json!({"token": ""}),
        json!({"token": 1}),
        json!([token]),
        json!({"token": token, "x": 1}),
    ] {
        assert_eq!(
            post(bad.clone(), PATH).await,
            StatusCode::BAD_REQUEST,
            "{bad}"
        );
    }
    assert_eq!(
        post(json!({"token": token}), "/api/session?token=x").await,
        StatusCode::BAD_REQUEST
    );
    // A token that was copied with the line it stood in.
    assert_eq!(
        post(json!({"token": format!(" {token}\n")}), PATH).await,
        StatusCode::OK
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cookie_is_good_for_pages_of_this_server_only() {
    let tier = Tier::new().await;
    let token = tier.token(Role::Admin, None).await;
    let cookie = sign_in(&tier.router, &token, &[]).await.cookie();
    let make = ("/api/internal/projects", json!({"project_id": "new"}));
    let write = async |headers: &[(&str, &str)]| {
        let headers = [
            &[("cookie", cookie.as_str()), ("host", "spindle:7070")],
            headers,
        ]
        .concat();
        ask(
            &tier.router,
            (Method::POST, make.0),
            &headers,
            make.1.clone(),
        )
        .await
    };
    for refused in [
        &[("sec-fetch-site", "cross-site")][..],
        &[("sec-fetch-site", "same-site")],
        &[("origin", "http://evil.example")],
        &[("origin", "null")],
    ] {
        let answer = write(refused).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{refused:?}");
        assert_eq!(answer.body["error"], "cross_site");
        // Another site can neither sign a user in nor out.
        for (method, body) in [
            (Method::POST, json!({ "token": token })),
            (Method::DELETE, Value::Null),
        ] {
            let headers = [
                &[("cookie", cookie.as_str()), ("host", "spindle:7070")],
                refused,
            ]
            .concat();
            let answer = ask(&tier.router, (method, PATH), &headers, body).await;
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{refused:?}");
            assert_eq!(answer.set_cookie, None);
        }
    }
    for taken in [
        &[
            ("sec-fetch-site", "same-origin"),
            ("origin", "http://named.otherwise"),
        ][..],
        &[("origin", "http://spindle:7070")],
        &[],
    ] {
        assert!(write(taken).await.status.is_success(), "{taken:?}");
    }
    let headers = [
        ("cookie", cookie.as_str()),
        ("sec-fetch-site", "cross-site"),
    ];
    let answer = ask(&tier.router, (Method::GET, RUNS), &headers, Value::Null).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    // A token in the header is not sent by a browser on its own: it is good from anywhere.
    let bearer = format!("Bearer {token}");
    let headers = [
        ("authorization", bearer.as_str()),
        ("cookie", cookie.as_str()),
        ("sec-fetch-site", "cross-site"),
        ("origin", "http://evil.example"),
    ];
    let answer = ask(&tier.router, (Method::POST, make.0), &headers, make.1).await;
    assert!(answer.status.is_success(), "{}", answer.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn over_https_the_cookie_goes_nowhere_else() {
    let tier = Tier::new().await;
    let token = tier.token(Role::Viewer, None).await;
    let is_secure = async |router: &Router, headers: &[(&str, &str)]| {
        let kept = sign_in(router, &token, headers).await.set_cookie.unwrap();
        kept.ends_with("; Secure")
    };
    assert!(!is_secure(&tier.router, &[]).await);
    assert!(!is_secure(&tier.router, &[("x-forwarded-proto", "http")]).await);
    assert!(is_secure(&tier.router, &[("x-forwarded-proto", "https")]).await);
    assert!(is_secure(&tier.router, &[("x-forwarded-proto", "https, http")]).await);
    let public = SessionRules {
        public: Some("https://spindle.example.org".parse().unwrap()),
        ..SessionRules::default()
    };
    let router = query::router(tier.state.clone().signing_in(public));
    assert!(is_secure(&router, &[]).await);
}
