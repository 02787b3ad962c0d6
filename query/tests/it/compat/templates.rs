//! `/v1/templates` and `/v1/template_versions`.

use axum::http::StatusCode;
use schemas::credential::Scope;

use crate::tier::Tier;

#[tokio::test(flavor = "multi_thread")]
async fn templates_are_a_404_that_says_why() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Read]).await;
    for path in [
        "/v1/template_versions/latest?slug=hello",
        "/v1/templates/latest",
    ] {
        let (status, answer) = tier.get(&key, path).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{answer}");
        assert!(
            answer["message"]
                .to_string()
                .contains("no prompt templates")
        );
        assert_eq!(tier.get("", path).await.0, StatusCode::UNAUTHORIZED);
    }
}
