//! Starts of processes: instances beside the events that report them (P1).

use schemas::start::{self, Start};
use serde_json::json;
use store::platform::instances::{InstanceQuery, Instances};
use store::reads::filter_sql::Projects;

use crate::deployment::Deployment;

#[tokio::test(flavor = "multi_thread")]
async fn a_start_is_an_instance_once_however_often_its_record_comes() {
    let deployment = Deployment::new().await;
    let started_at_ms = chrono::Utc::now().timestamp_millis();
    let started = Start {
        uuid: "u-1".to_owned(),
        instance_id: 7,
        started_at_ms,
        process: "Order [v2]".to_owned(),
        tokens: "[{\"id\":8}]".to_owned(),
        ..Start::default()
    };
    let event = json!({"name": "Order [v2]_start", "type": "process", "run_id": "u-1", "event_id": "process_start/u-1",
        "timestamp": started_at_ms, "input": {"key1": "ä", "amount": 1.50}});
    let header = Some((start::HEADER, started.encode().unwrap()));
    for _ in 0..3 {
        deployment
            .report_with("ours", "shop", std::slice::from_ref(&event), header.clone())
            .await;
        deployment.drained().await;
    }
    // A client reports the same, but has no header for it.
    let mut claimed = event.clone();
    claimed["run_id"] = json!("u-2");
    deployment.report("ours", "shop", &[claimed]).await;
    let damaged = Some((start::HEADER, b"{".to_vec()));
    deployment
        .report_with("ours", "shop", &[event], damaged)
        .await;
    deployment.drained().await;

    let instances = Instances::new((*deployment.store).clone());
    let query = InstanceQuery {
        limit: 10,
        ..InstanceQuery::default()
    };
    let listed = instances.list(&Projects::All, &query).await.unwrap();
    assert_eq!(listed.len(), 1, "{listed:?}");
    let found = instances.one(&Projects::All, Some("shop"), "u-1").await;
    let found = found.unwrap().unwrap();
    assert_eq!(found.start(), started);
    assert_eq!(found.project_id, "ours");
    let input: serde_json::Value = serde_json::from_str(&found.input).unwrap();
    assert_eq!(input, json!({"key1": "ä", "amount": 1.50}));
}
