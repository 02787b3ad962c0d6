//! The log fails: no 200 without durability (L1).

use eventlog::LogError;

use crate::fixture::{batch, event, event_of, tier};

fn full() -> LogError {
    LogError::Full("the disk is full".to_owned())
}

#[tokio::test]
async fn a_log_that_is_full_or_away_is_503_with_a_time_and_never_200() {
    // (L1)
    let tier = tier();
    for error in [
        full(),
        LogError::Unavailable("disk I/O error on /secret/path".to_owned()),
        LogError::Closed,
    ] {
        tier.log.faults.lock().unwrap().push(Some(error));
        let answer = tier.report(batch(&[event("a")])).await;
        assert_eq!(answer.error(), (503, "unavailable"));
        assert_eq!(answer.retry_after_s(), Some(5));
        assert!(
            !answer.json.to_string().contains("/secret/path"),
            "5xx say nothing of the inside"
        );
    }
    assert!(tier.records().is_empty());
    assert_eq!(tier.metric("spindle_ingest_accepted_events_total"), 0.0);
    assert_eq!(tier.report(batch(&[event("a")])).await.status, 200);
}

#[tokio::test]
async fn a_log_that_is_damaged_is_500_that_tells_nothing() {
    let tier = tier();
    for error in [
        LogError::Damaged("segment 7".to_owned()),
        LogError::TooLarge { bytes: 2, limit: 1 },
    ] {
        tier.log.faults.lock().unwrap().push(Some(error));
        let answer = tier.report(batch(&[event("a")])).await;
        assert_eq!(answer.error(), (500, "internal_error"));
        assert!(!answer.json.to_string().contains("segment"));
    }
}

#[tokio::test]
async fn one_failed_record_of_several_is_no_200_and_the_retry_is_whole() {
    // (L1): what the first try appended is appended again; the events' identities make that harmless.
    let tier = tier();
    let body = batch(&[event_of("a", "x"), event_of("b", "y"), event_of("c", "z")]);
    tier.log
        .faults
        .lock()
        .unwrap()
        .extend([None, Some(full()), None]);
    assert_eq!(tier.report(body.clone()).await.status, 503);
    assert_eq!(tier.metric("spindle_ingest_accepted_events_total"), 0.0);
    // What is in the log is counted, so that the processor's count can be compared (P4).
    assert_eq!(tier.metric("spindle_ingest_appended_events_total"), 2.0);
    assert_eq!(tier.report(body).await.json["accepted"], 3);
    assert_eq!(tier.metric("spindle_ingest_appended_events_total"), 5.0);
}

#[tokio::test]
async fn the_answer_waits_for_the_log() {
    // (L1)
    let tier = tier();
    let held = tier.log.hold.lock().await;
    let mut report = Box::pin(tier.report(batch(&[event("a")])));
    for _ in 0..100 {
        assert!(futures::poll!(&mut report).is_pending());
        tokio::task::yield_now().await;
    }
    drop(held);
    assert_eq!(report.await.status, 200);
}

#[tokio::test]
async fn a_client_that_leaves_does_not_stop_what_was_begun() {
    // (P4)
    let tier = tier();
    let held = tier.log.hold.lock().await;
    let mut report = Box::pin(tier.report(batch(&[event("a")])));
    while tier.metric("spindle_ingest_in_flight_bytes") == 0.0 {
        assert!(futures::poll!(&mut report).is_pending());
    }
    drop(report);
    drop(held);
    while tier.metric("spindle_ingest_in_flight_bytes") > 0.0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(tier.metric("spindle_ingest_appended_events_total"), 1.0);
    assert_eq!(tier.records().len(), 1);
}
