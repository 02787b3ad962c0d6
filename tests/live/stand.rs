//! A deployment of tiers for suites in other languages.

use std::time::Duration;

use serde_json::json;

use crate::harness::{Setup, event};

/// A folder: where the deployment is and how to come in is written there, and it stays until standard input ends.
const FOLDER_VARIABLE: &str = "SPINDLE_TEST_STAND";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_stands_behind_one_address_and_ends_in_order() {
    let setup = Setup::distributed().await;
    let mut server = setup.start_ready().await;
    let logs = ["ingest", "processor", "query"].map(|role| setup.process(role).log());
    let found = json!({"url": server.url, "key": setup.key, "token": setup.token, "logs": logs});
    if let Some(folder) = std::env::var_os(FOLDER_VARIABLE) {
        let folder = std::path::PathBuf::from(folder);
        let part = folder.join("stand.part");
        std::fs::write(&part, found.to_string()).unwrap();
        std::fs::rename(part, folder.join("stand.json")).unwrap();
        let ended = tokio::task::spawn_blocking(|| {
            std::io::copy(&mut std::io::stdin(), &mut std::io::sink())
        });
        ended.await.unwrap().unwrap();
    } else {
        let answer = server
            .report(&[event("stand", "r", "agent_start", 0)])
            .await;
        assert_eq!(answer.unwrap().status(), 200);
    }
    server.signal(rustix::process::Signal::TERM);
    assert_eq!(server.ended(Duration::from_secs(40)).await, Some(0));
}
