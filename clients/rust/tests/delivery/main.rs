//! Delivery to a server that is healthy, slow, down, failing or restarting, and the counts of what does not arrive.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod runs;
mod server;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use server::{Server, Turn, settings};
use spindle_client::{Client, ClientError, Event, Settings, Stats};

/// Reports so many events, each with its number as its run.
fn report(client: &Client, events: usize) {
    for number in 0..events {
        client.report(Event::new("agent_start", number.to_string()));
    }
}

/// Every event is counted once, and none is queued any more.
#[track_caller]
fn assert_settled(stats: &Stats) {
    let told = stats.sent + stats.dropped.total();
    assert_eq!((stats.queued, stats.waiting), (told, 0), "{stats:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_arrive_once_each_and_in_order_in_bounded_batches() {
    let server = Server::start(&[]).await;
    let client = Client::start(Settings {
        app_id: Some("shop".to_owned()),
        batch_events: 40,
        ..server.settings()
    })
    .unwrap();
    report(&client, 333);
    let stats = client.close().await;
    assert_settled(&stats);
    assert_eq!((stats.sent, stats.accepted), (333, 333));
    let events = server.events();
    let runs: Vec<String> = (0..333).map(|number| number.to_string()).collect();
    let arrived: Vec<&str> = events
        .iter()
        .map(|event| event["run_id"].as_str().unwrap())
        .collect();
    assert_eq!(arrived, runs);
    assert!(events.iter().all(|event| event["app_id"] == "shop"));
    let ids: HashSet<&str> = events
        .iter()
        .map(|event| event["event_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), 333);
    for request in server.seen() {
        assert!(
            request.head.starts_with("POST /api/report HTTP/1.1\r\n"),
            "{}",
            request.head
        );
        assert!(
            request
                .head
                .contains("authorization: Bearer sp_key_test\r\n")
        );
        assert!((1..=40).contains(&request.events.len()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_sent_on_the_interval_and_a_full_batch_at_once() {
    let server = Server::start(&[]).await;
    let client = Client::start(server.settings()).unwrap();
    report(&client, 1);
    server.requests(1).await;

    let other = Server::start(&[]).await;
    let patient = Client::start(Settings {
        flush_interval: Duration::from_secs(3600),
        batch_events: 10,
        ..other.settings()
    })
    .unwrap();
    report(&patient, 15);
    other.requests(1).await;
    let stats = patient.close().await;
    assert_eq!((stats.sent, other.seen()[0].events.len()), (15, 10));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_refuses_is_counted() {
    let refusing =
        r#"{"accepted":1,"rejected":2,"errors":[{"index":0,"code":"too_long","message":"x"}]}"#;
    let server = Server::start(&[Turn::Body(refusing)]).await;
    let client = Client::start(server.settings()).unwrap();
    report(&client, 3);
    let stats = client.close().await;
    assert_settled(&stats);
    assert_eq!((stats.sent, stats.accepted, stats.rejected), (3, 1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_fails_is_dropped_and_counted_and_the_next_one_goes() {
    for turn in [
        Turn::Status(500, ""),
        Turn::Status(429, "Retry-After: 3600\r\n"),
        Turn::Status(401, ""),
        Turn::Status(302, "Location: /elsewhere\r\n"),
        Turn::Body("<html>"),
        Turn::HangUp,
    ] {
        let server = Server::start(std::slice::from_ref(&turn)).await;
        let client = Client::start(server.settings()).unwrap();
        report(&client, 2);
        server.requests(1).await;
        report(&client, 3);
        let stats = client.close().await;
        assert_settled(&stats);
        let told = (stats.sent, stats.dropped.failed, stats.retries);
        // The second report may still have been part of the first batch.
        assert!(
            told == (3, 2, 0) || told == (0, 5, 0),
            "{turn:?}: {stats:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_sent_again_as_often_as_told_with_the_same_identities() {
    let turns = [Turn::Status(503, ""), Turn::HangUp, Turn::Status(408, "")];
    let server = Server::start(&turns).await;
    let client = Client::start(Settings {
        retries: 3,
        ..server.settings()
    })
    .unwrap();
    report(&client, 4);
    let stats = client.close().await;
    assert_settled(&stats);
    assert_eq!(
        (stats.sent, stats.retries, stats.dropped.total()),
        (4, 3, 0)
    );
    let seen = server.seen();
    assert!(seen.iter().all(|request| request.events == seen[0].events));

    // One attempt too few; and a rejected batch is not retried.
    for (turns, retries) in [(turns.to_vec(), 2), (vec![Turn::Status(400, "")], 0)] {
        let server = Server::start(&turns).await;
        let client = Client::start(Settings {
            retries: 2,
            ..server.settings()
        })
        .unwrap();
        report(&client, 4);
        let stats = client.close().await;
        assert_settled(&stats);
        assert_eq!((stats.dropped.failed, stats.retries), (4, retries));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_says_how_long_to_wait() {
    let server = Server::start(&[Turn::Status(429, "Retry-After: 1\r\n")]).await;
    let client = Client::start(Settings {
        retries: 1,
        ..server.settings()
    })
    .unwrap();
    let began = Instant::now();
    report(&client, 1);
    let stats = client.close().await;
    assert_eq!((stats.sent, stats.retries), (1, 1));
    assert!(
        began.elapsed() >= Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_restarts_loses_nothing_where_batches_are_sent_again() {
    let server = Server::start(&[]).await;
    let (address, settings) = (server.address, server.settings());
    let client = Client::start(Settings {
        retries: 10,
        ..settings
    })
    .unwrap();
    report(&client, 1);
    server.requests(1).await;
    drop(server);
    report(&client, 20);
    let again = loop {
        // Not before a batch was rejected.
        if client.stats().retries > 0 {
            break Server::at(address, &[]).await;
        }
        tokio::task::yield_now().await;
    };
    let stats = client.close().await;
    assert_settled(&stats);
    assert_eq!((stats.queued, stats.dropped.total()), (21, 0), "{stats:?}");
    assert!(again.events().len() >= 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_answers_holds_neither_the_program_nor_its_end() {
    let server = Server::start(&[Turn::Silence, Turn::Silence]).await;
    let client = Client::start(Settings {
        queue_events: 100,
        request_timeout: Duration::from_secs(3600),
        close_timeout: Duration::from_millis(50),
        ..server.settings()
    })
    .unwrap();
    report(&client, 1);
    server.requests(1).await;
    // A full queue drops events, and does not wait for room.
    report(&client, 1000);
    let stats = client.stats();
    assert_eq!((stats.waiting, stats.dropped.queue_full), (101, 900));
    let stats = client.close().await;
    assert_settled(&stats);
    assert_eq!((stats.dropped.queue_full, stats.dropped.closed), (900, 101));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_costs_the_events_and_no_time() {
    let address = Server::start(&[]).await.address;
    let client = Client::start(settings(address)).unwrap();
    report(&client, 700);
    let stats = client.close().await;
    assert_settled(&stats);
    assert_eq!(stats.dropped.failed, 700);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_a_million_events_stays_within_its_bounds() {
    let server = Server::start(&[]).await;
    let client = Client::start(server.settings()).unwrap();
    let event = Event::new("agent_start", "r");
    for _ in 0..1_000_000 {
        client.report(event.clone());
        assert!(client.stats().waiting <= 10_500, "what waits and one batch");
    }
    let stats = client.close().await;
    assert_settled(&stats);
    assert_eq!(stats.queued, 1_000_000);
    assert_eq!(
        stats.sent + stats.dropped.queue_full,
        1_000_000,
        "{stats:?}"
    );
    assert!(
        server
            .seen()
            .iter()
            .all(|request| request.events.len() <= 500 && request.bytes <= 1 << 20)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_after_the_end_or_is_too_large_is_counted() {
    let server = Server::start(&[]).await;
    let client = Client::start(server.settings()).unwrap();
    client
        .agent("large")
        .input("x".repeat(2 << 20))
        .start()
        .end(1);
    let stats = client.close().await;
    assert_eq!((stats.sent, stats.dropped.too_large), (1, 1));
    report(&client, 2);
    let stats = client.close().await;
    assert_settled(&stats);
    assert_eq!(stats.dropped.closed, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_last_client_sends_what_waits_before_it_returns() {
    let server = Server::start(&[]).await;
    let settings = Settings {
        flush_interval: Duration::from_secs(3600),
        ..server.settings()
    };
    let client = Client::start(settings.clone()).unwrap();
    report(&client.clone(), 2);
    drop(client);
    assert_eq!(server.events().len(), 2);

    // A program whose runtime ends with `main`.
    let program = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let client = Client::start(settings).unwrap();
            report(&client, 3);
        });
    });
    program.join().unwrap();
    assert_eq!(server.events().len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_client_of_a_server_that_hangs_takes_no_longer_than_closing_may() {
    let server = Server::start(&[Turn::Silence]).await;
    let client = Client::start(Settings {
        close_timeout: Duration::from_millis(200),
        ..server.settings()
    })
    .unwrap();
    report(&client, 1);
    let started = Instant::now();
    drop(client);
    assert!(
        started.elapsed() < Duration::from_secs(4),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_cannot_be_meant_are_told_at_the_start() {
    let with = |url: &str, key: Option<&str>| {
        Client::start(Settings {
            url: url.to_owned(),
            api_key: key.map(str::to_owned),
            ..Settings::default()
        })
    };
    for url in ["", "spindle", "127.0.0.1:7070", "ftp://host", "http://"] {
        assert!(matches!(with(url, None), Err(ClientError::Url(_))), "{url}");
    }
    assert!(matches!(
        with("http://host", Some("a\nb")),
        Err(ClientError::Key)
    ));
    let shown = format!(
        "{:?}",
        Settings {
            api_key: Some("sp_key_secret".to_owned()),
            ..Settings::default()
        }
    );
    assert!(!shown.contains("secret"), "{shown}");
}
