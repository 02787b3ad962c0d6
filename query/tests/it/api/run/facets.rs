//! `GET /api/run/facets`.

use axum::http::StatusCode;
use serde_json::json;

use crate::api::analytics::usage::tier_with_calls;

#[tokio::test(flavor = "multi_thread")]
async fn facets_count_what_the_rest_of_the_filter_leaves() {
    let (tier, key) = tier_with_calls().await;
    let path = "/api/run/facets?from=2026-11-01&model=m1&status=success";
    let (status, found) = tier.get(&key, path).await;
    assert_eq!(status, StatusCode::OK, "{found}");
    let values = |name: &str| found["facets"][name]["values"].clone();
    // The model's own filter is left out for the models, the status' for the statuses.
    assert_eq!(values("model"), json!([{"value": "m1", "count": 2}]));
    assert_eq!(values("status"), json!([{"value": "success", "count": 2}]));
    assert_eq!(values("tags"), json!([{"value": "a", "count": 2}]));
    assert_eq!(values("agent"), json!([{"value": "scout", "count": 2}]));
    assert_eq!(
        values("user_email"),
        json!([{"value": "ada@x", "count": 2}])
    );
    let (_, found) = tier
        .get(&key, "/api/run/facets?from=2026-11-01&model=m1")
        .await;
    let models = json!({"values": [{"value": "m1", "count": 2}, {"value": "m2", "count": 1}], "truncated": false});
    assert_eq!(found["facets"]["model"], models);
    assert_eq!(found["facets"].as_object().unwrap().len(), 8);
}
