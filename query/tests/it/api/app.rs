//! `GET /api/app/{app}`.

use axum::http::StatusCode;
use schemas::credential::Scope;
use serde_json::json;

use crate::tier::Tier;

#[tokio::test(flavor = "multi_thread")]
async fn a_greeting_is_the_same_for_every_app_and_needs_no_key() {
    let tier = Tier::new().await;
    tier.key("ours", &[Scope::Read]).await;
    for app in ["ours", "no-such", "%F0%9F%92%A9"] {
        let (status, answer) = tier.get("", &format!("/api/app/{app}")).await;
        assert_eq!((status, answer), (StatusCode::OK, json!({"status": "ok"})));
    }
}
