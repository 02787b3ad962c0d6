//! SIGTERM: requests in flight end, what was taken from the log is stored, the engine ends, the exit code is 0.

use std::time::Duration;

use rustix::process::Signal;

use crate::harness::{Setup, event};
use crate::load::{Load, Traffic};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_under_load_loses_nothing_and_ends_everything_r1() {
    let setup = Setup::new();
    let mut server = setup.start_ready().await;
    let load = Load::start(&server, Traffic::new("stops", 1, 3));
    server
        .until("there is load", Duration::from_secs(30), async || {
            (load.accepted() > 50).then_some(())
        })
        .await;
    let engine = server.engine_pid().unwrap();

    server.signal(Signal::TERM);
    assert_eq!(
        server.ended(Duration::from_secs(40)).await,
        Some(0),
        "{}",
        setup.logged()
    );
    assert!(
        !std::path::Path::new(&format!("/proc/{engine}/exe")).exists(),
        "the engine outlived the server"
    );
    assert!(
        !setup.data().join("address").exists(),
        "the address of a stopped server is gone"
    );

    let server = setup.start_ready().await;
    load.follow(&server);
    load.finish().await.assert_found_once(&server).await;
    assert!(
        !setup.logged().contains(&setup.key) && !setup.logged().contains(&setup.token),
        "(X2)"
    );
}

#[tokio::test]
async fn a_second_signal_ends_at_once() {
    let setup = Setup::new();
    let mut server = setup.start_ready().await;
    server.signal(Signal::INT);
    server.signal(Signal::TERM);
    assert!(server.ended(Duration::from_secs(20)).await.is_some());
}

#[tokio::test]
async fn two_servers_cannot_use_one_folder() {
    let setup = Setup::new();
    let server = setup.start_ready().await;
    let mut second = setup.spawn();
    assert_eq!(
        tokio::task::spawn_blocking(move || second.wait().unwrap().code())
            .await
            .unwrap(),
        Some(1)
    );
    let logged = setup.logged();
    assert!(
        logged.contains("in use by another spindle server"),
        "{logged}"
    );
    let answer = server
        .report(&[event("a", "r", "agent_start", 0)])
        .await
        .unwrap();
    assert_eq!(answer.status(), 200, "the first is unharmed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_stream_shows_runs_as_they_change_and_does_not_hold_up_the_end() {
    let setup = Setup::new();
    let mut server = setup.start_ready().await;
    let mut stream = server
        .client
        .get(format!("{}/api/run/live?app_id=a", server.url))
        .bearer_auth(&server.key)
        .header("accept-encoding", "gzip, br")
        .send()
        .await
        .unwrap();
    assert!(
        !stream.headers().contains_key("content-encoding"),
        "a compressed stream waits for its buffer"
    );
    server
        .report(&[event("a", "seen", "agent_start", 0)])
        .await
        .unwrap();
    let shown = async {
        let mut text = String::new();
        while !text.contains("\"run_id\":\"seen\"") {
            let bytes = stream.chunk().await.unwrap().expect("the stream ended");
            text.push_str(&String::from_utf8_lossy(&bytes));
        }
    };
    tokio::time::timeout(Duration::from_secs(30), shown)
        .await
        .expect("the run did not come");

    server.signal(Signal::TERM);
    // Half of what requests in flight are waited for.
    assert_eq!(server.ended(Duration::from_secs(10)).await, Some(0));
    let rest = async { while stream.chunk().await.is_ok_and(|bytes| bytes.is_some()) {} };
    tokio::time::timeout(Duration::from_secs(10), rest)
        .await
        .expect("the stream outlived the server");
}
