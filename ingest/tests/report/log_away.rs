//! The log fails: no 200 without durability (L1).

use eventlog::{Fault, Log};

use crate::fixture::{batch, event, event_of, tier};

#[tokio::test]
async fn a_log_that_is_full_or_away_is_503_with_a_time_and_never_200_l1() {
    let tier = tier();
    for fault in [Fault::Full, Fault::Unavailable] {
        tier.log.fail_next_append(fault);
        let answer = tier.report(batch(&[event("a")])).await;
        assert_eq!(answer.error(), (503, "unavailable"));
        assert_eq!(answer.retry_after_s(), Some(5));
        assert!(
            !answer.json.to_string().contains("ordered by a test"),
            "5xx say nothing of the inside"
        );
    }
    assert!(tier.records().is_empty());
    assert_eq!(tier.metric("spindle_ingest_accepted_events_total"), 0.0);
    assert_eq!(tier.report(batch(&[event("a")])).await.status, 200);
    tier.log.close().await;
    assert_eq!(
        tier.report(batch(&[event("a")])).await.error(),
        (503, "unavailable")
    );
}

#[tokio::test]
async fn an_answer_of_the_log_that_got_lost_is_503_and_sending_again_is_harmless() {
    // (L1): the record is there twice, its events have the same identities.
    let tier = tier();
    tier.log.fail_next_append(Fault::UnavailableYetDone);
    let body = batch(&[event("a")]);
    assert_eq!(tier.report(body.clone()).await.status, 503);
    assert_eq!(tier.report(body.clone()).await.json["accepted"], 1);
    assert_eq!(tier.payloads(), [body.clone(), body]);
}

#[tokio::test]
async fn a_log_that_is_damaged_is_500_that_tells_nothing() {
    let tier = tier();
    tier.log.fail_next_append(Fault::Damaged);
    let answer = tier.report(batch(&[event("a")])).await;
    assert_eq!(answer.error(), (500, "internal_error"));
    assert!(!answer.json.to_string().contains("ordered by a test"));
}

#[tokio::test]
async fn one_failed_record_of_several_is_no_200_and_the_retry_is_whole() {
    // (L1): what the first try appended is appended again; the events' identities make that harmless.
    let tier = tier();
    let body = batch(&[event_of("a", "x"), event_of("b", "y"), event_of("c", "z")]);
    tier.log.fail_next_append(Fault::Full);
    assert_eq!(tier.report(body.clone()).await.status, 503);
    assert_eq!(tier.metric("spindle_ingest_accepted_events_total"), 0.0);
    // What is in the log is counted, so that the processor's count can be compared (P4).
    assert_eq!(tier.records().len(), 2);
    assert_eq!(tier.metric("spindle_ingest_appended_events_total"), 2.0);
    assert_eq!(tier.report(body).await.json["accepted"], 3);
    assert_eq!(tier.metric("spindle_ingest_appended_events_total"), 5.0);
}

#[tokio::test]
async fn the_answer_waits_for_the_log_l1() {
    let tier = tier();
    tier.log.hold_appends();
    let mut report = Box::pin(tier.report(batch(&[event("a")])));
    for _ in 0..100 {
        assert!(futures::poll!(&mut report).is_pending());
        tokio::task::yield_now().await;
    }
    tier.log.release_appends();
    assert_eq!(report.await.status, 200);
}

#[tokio::test]
async fn a_client_that_leaves_does_not_stop_what_was_begun_p4() {
    let tier = tier();
    tier.log.hold_appends();
    let mut report = Box::pin(tier.report(batch(&[event("a")])));
    while tier.metric("spindle_ingest_in_flight_bytes") == 0.0 {
        assert!(futures::poll!(&mut report).is_pending());
    }
    drop(report);
    tier.log.release_appends();
    while tier.metric("spindle_ingest_in_flight_bytes") > 0.0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(tier.metric("spindle_ingest_appended_events_total"), 1.0);
    assert_eq!(tier.records().len(), 1);
}
