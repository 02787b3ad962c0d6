use super::*;

fn table(max: usize, max_per_address: usize) -> Connections {
    let metrics = HttpMetrics::register(&Registry::new()).unwrap();
    Connections::new(max, max_per_address, metrics)
}

fn peer(host: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host], 1))
}

async fn admit(table: &Connections, host: u8) -> Admitted {
    table.admit(peer(host)).await.unwrap()
}

/// Ends connections on request, as their tasks would.
async fn obeying(admitted: Admitted) {
    admitted.connection.end.cancelled().await;
}

#[tokio::test(start_paused = true)]
async fn the_oldest_that_waits_gives_way_and_never_a_request_that_is_worked_on() {
    let table = table(4, 4);
    let working = admit(&table, 1).await;
    let _request = working.connection.begin();
    tokio::time::advance(Duration::from_millis(10)).await;

    let body = admit(&table, 2).await;
    let request = body.connection.begin();
    let _wait = body.connection.wait_for_body(BodyKind::Other);
    let ended = body.connection.end.clone();
    let obeyed = tokio::spawn(async move {
        obeying(body).await;
        drop(request);
    });
    tokio::time::advance(Duration::from_millis(10)).await;

    let silent = admit(&table, 3).await;
    let report = admit(&table, 4).await;
    let _report = report.connection.begin();
    let _report_wait = report.connection.wait_for_body(BodyKind::Report);

    let _new = admit(&table, 5).await;
    obeyed.await.unwrap();
    assert!(ended.is_cancelled());
    for kept in [&working, &silent, &report] {
        assert!(!kept.connection.end.is_cancelled());
    }
}

#[tokio::test(start_paused = true)]
async fn a_report_gives_way_last_and_not_in_its_first_second() {
    let table = table(2, 2);
    let report = admit(&table, 1).await;
    let _request = report.connection.begin();
    let _wait = report.connection.wait_for_body(BodyKind::Report);
    tokio::time::advance(REPORT_WAIT * 2).await;
    let silent = admit(&table, 2).await;
    let ended = silent.connection.end.clone();
    let obeyed = tokio::spawn(obeying(silent));
    let busy = admit(&table, 3).await;
    obeyed.await.unwrap();
    assert!(ended.is_cancelled() && !report.connection.end.is_cancelled());

    let _busy = busy.connection.begin();
    let obeyed = tokio::spawn(obeying(report));
    let _new = admit(&table, 4).await;
    obeyed.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_address_has_no_more_than_its_share() {
    let table = table(10, 2);
    let (first, second) = (admit(&table, 1).await, admit(&table, 1).await);
    let (_one, _two) = (first.connection.begin(), second.connection.begin());
    assert!(table.admit(peer(1)).await.is_none());
    let other = admit(&table, 2).await;
    drop(first);
    let _third = admit(&table, 1).await;
    assert!(!other.connection.end.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_request_is_idle_after_its_time() {
    let table = table(2, 2);
    let admitted = admit(&table, 1).await;
    let (first, next) = (Duration::from_secs(10), Duration::from_secs(100));
    let begun = Instant::now();
    admitted.connection.is_idle(first, next).await;
    assert_eq!(begun.elapsed().as_secs(), 10);
    let request = admitted.connection.begin();
    let long = tokio::time::timeout(next * 10, admitted.connection.is_idle(first, next)).await;
    assert!(long.is_err(), "a request is being answered");
    drop(request);
    let begun = Instant::now();
    admitted.connection.is_idle(first, next).await;
    assert_eq!(begun.elapsed().as_secs(), 100);
}
