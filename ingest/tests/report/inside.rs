//! Events that come from inside of the process.

use schemas::ids::{AppId, ProjectId};

use crate::fixture::tier;

#[tokio::test]
async fn an_event_from_inside_is_checked_counted_and_durable_like_a_report_l1_p4() {
    let tier = tier();
    let take = async |event: &str| {
        let (project, app) = (ProjectId::new("acme"), AppId::new("shop"));
        tier.state.take_event(&project, &app, event).await
    };
    let saved = r#"{"name":"saved","run_id":"r","timestamp":"2024-05-01T10:00:00.000Z"}"#;
    take(saved).await.unwrap();
    let records = tier.records();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].key, "acme/shop");
    assert_eq!(records[0].payload, format!("{{\"events\":[{saved}]}}"));
    for counted in ["accepted", "appended"] {
        assert_eq!(
            tier.metric(&format!("spindle_ingest_{counted}_events_total")),
            1.0
        );
    }

    let refused = take(r#"{"name":"saved","run_id":"r"}"#).await.unwrap_err();
    assert_eq!(
        (refused.status, refused.code.as_str()),
        (400, "missing_field")
    );
    let torn = take(r#"{"name":"#).await.unwrap_err();
    assert_eq!(torn.status, 400);
    assert_eq!(tier.metric("spindle_ingest_rejected_events_total"), 1.0);
    assert_eq!(tier.metric("spindle_ingest_accepted_events_total"), 1.0);
    assert_eq!(tier.metric("spindle_ingest_in_flight_bytes"), 0.0);
    assert_eq!(tier.records().len(), 1);

    tier.log.fail_next_append(eventlog::Fault::Unavailable);
    let away = take(saved).await.unwrap_err();
    assert!(away.status == 503 && away.retry_after_s.is_some());
    assert_eq!(tier.metric("spindle_ingest_accepted_events_total"), 1.0);
}
