//! SIGTERM: requests in flight end, what was taken from the log is stored, the engine ends, the exit code is 0.

use std::time::Duration;

use rustix::process::Signal;

use crate::harness::{Setup, event};
use crate::load::Load;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_under_load_loses_nothing_and_ends_everything_r1() {
    let setup = Setup::new();
    let mut server = setup.start_ready().await;
    let load = Load::start(&server, "stops", 1, 3);
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
