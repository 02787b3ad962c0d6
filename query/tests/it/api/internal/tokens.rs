//! `/api/internal/keys` and `/api/internal/tokens`.

use axum::http::{Method, StatusCode};
use schemas::credential::Role;
use serde_json::{Value, json};
use store::credentials::NewToken;

use crate::tier::{NOON_MS, Tier};

#[tokio::test(flavor = "multi_thread")]
async fn an_admin_makes_and_revokes_credentials_whose_secrets_are_shown_once() {
    let tier = Tier::new().await;
    let admin = tier.token(Role::Admin, None).await;
    let (status, project) = tier
        .ask(
            Method::POST,
            &admin,
            "/api/internal/projects",
            Some(json!({"project_id": "new"})),
        )
        .await;
    assert_eq!(
        (status, &project["default_app"]),
        (StatusCode::OK, &json!("default")),
        "{project}"
    );
    let (status, key) = tier
        .ask(
            Method::POST,
            &admin,
            "/api/internal/keys",
            Some(json!({"project_id": "new"})),
        )
        .await;
    assert_eq!(status, StatusCode::CREATED, "{key}");
    let secret = key["secret"].as_str().unwrap();
    assert_eq!(tier.get(secret, "/api/run").await.0, StatusCode::OK);
    let (_, keys) = tier.get(&admin, "/api/internal/keys?project_id=new").await;
    assert_eq!(keys["data"][0]["id"], key["id"]);
    assert!(
        !keys.to_string().contains(secret),
        "a secret is shown once (X2)"
    );
    let path = format!("/api/internal/keys/{}", key["id"].as_str().unwrap());
    assert_eq!(
        tier.ask(Method::DELETE, &admin, &path, None).await.0,
        StatusCode::OK
    );
    assert_eq!(
        tier.get(secret, "/api/run").await.0,
        StatusCode::UNAUTHORIZED
    );
    assert_eq!(
        tier.ask(Method::DELETE, &admin, &path, None).await.0,
        StatusCode::NOT_FOUND
    );
    for (path, body, expected) in [
        ("/api/internal/keys", json!({"project_id": "gone"}), 404),
        (
            "/api/internal/keys",
            json!({"project_id": "new", "scopes": ["write"]}),
            400,
        ),
        (
            "/api/internal/projects",
            json!({"project_id": "Not valid"}),
            400,
        ),
        ("/api/internal/tokens", json!({"role": "king"}), 400),
        (
            "/api/internal/tokens",
            json!({"role": "viewer", "projects": ["gone"]}),
            404,
        ),
    ] {
        let (status, answer) = tier.ask(Method::POST, &admin, path, Some(body)).await;
        assert_eq!(status.as_u16(), expected, "{path}: {answer}");
    }
    // Who is limited to projects administers those, and no tokens.
    let limited = tier.token(Role::Admin, Some(&["ours"])).await;
    assert_eq!(
        tier.get(&limited, "/api/internal/tokens").await.0,
        StatusCode::FORBIDDEN
    );
    let answer = tier
        .ask(
            Method::POST,
            &limited,
            "/api/internal/keys",
            Some(json!({"project_id": "new"})),
        )
        .await;
    assert_eq!(answer.0, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_token_is_made_to_end_and_says_so_when_it_has_ended() {
    let tier = Tier::new().await;
    let admin = tier.token(Role::Admin, None).await;
    let path = "/api/internal/tokens";
    let make = async |body: Value| tier.ask(Method::POST, &admin, path, Some(body)).await;
    let (status, made) = make(json!({"role": "viewer", "expires_in": "30d"})).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    let ends = chrono::DateTime::parse_from_rfc3339(made["expires_at"].as_str().unwrap()).unwrap();
    let days = (ends.to_utc() - chrono::Utc::now()).num_hours();
    assert!((719..=720).contains(&days), "{made}");
    let (_, listed) = tier.ask(Method::GET, &admin, path, None).await;
    let listed = listed["data"].as_array().unwrap();
    let listed = listed
        .iter()
        .find(|token| token["id"] == made["id"])
        .unwrap();
    assert_eq!(listed["expires_at"], made["expires_at"]);
    let (_, forever) = make(json!({"role": "viewer"})).await;
    assert_eq!(forever["expires_at"], Value::Null);
    for bad in [
        json!({"role": "viewer", "expires_in": "soon"}),
        json!({"role": "viewer", "expires_at": "2020-01-01T00:00:00Z"}),
        json!({"role": "viewer", "expires_in": "1d", "expires_at": "2027-01-01T00:00:00Z"}),
    ] {
        let (status, fault) = make(bad).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{fault}");
    }

    let ended = NewToken {
        name: String::new(),
        role: Role::Admin,
        projects: None,
        expires_at_ms: Some(NOON_MS - 365 * 86_400_000),
        secret: None,
    };
    let ended = tier.credentials.create_token(ended).await.unwrap();
    let (status, fault) = tier
        .ask(Method::GET, ended.secret.reveal(), "/api/run", None)
        .await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    let message = fault["message"].as_str().unwrap();
    assert!(
        message.contains("expired at 2025-11-20T10:00:00.000Z"),
        "{message}"
    );
}
