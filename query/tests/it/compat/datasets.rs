//! `GET /v1/datasets/{slug}`.

use schemas::credential::Scope;
use serde_json::json;

use crate::api::dataset::{Told, asked, write};
use crate::tier::Tier;

#[tokio::test(flavor = "multi_thread")]
async fn the_saved_runs_with_a_tag_are_a_dataset_of_lunary_t1() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Read]).await;
    let unsaved = Told {
        saved: 0,
        ..Told::new(3, "c", "llm", (json!("x"), json!("y")))
    };
    let theirs = Told {
        project: "theirs",
        ..Told::new(4, "t", "llm", (json!("x"), json!("y")))
    };
    let told = [
        Told::new(1, "a", "llm", (asked("why?"), json!("because"))),
        Told::new(2, "b", "agent", (json!({"q": 1}), json!([2]))),
        unsaved,
        theirs,
    ];
    write(&tier, &told).await;
    let (status, dataset) = tier.get(&key, "/v1/datasets/a").await;
    let expected = json!({
        "slug": "a",
        "items": [
            {"id": "b", "input": {"q": 1}, "idealOutput": [2], "metadata": {"env": "prod", "n": 2}},
            {"id": "a", "input": asked("why?"), "idealOutput": "because", "metadata": {"env": "prod", "n": 1}}
        ],
        "runs": [
            {"id": "b", "type": "agent", "name": "agent", "input": {"q": 1}, "output": [2], "tags": ["a"]},
            {"id": "a", "type": "llm", "name": "agent", "input": asked("why?"), "output": "because", "tags": ["a"]}
        ],
        "truncated": false
    });
    assert_eq!((status, dataset), (axum::http::StatusCode::OK, expected));
    for slug in ["b", "a,b", "%2Ca"] {
        let (status, answer) = tier.get(&key, &format!("/v1/datasets/{slug}")).await;
        assert_eq!(status.as_u16(), 404, "{slug}: {answer}");
    }
}
