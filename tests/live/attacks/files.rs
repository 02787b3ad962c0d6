//! Another user of the machine reads the data folder; a full disk keeps the server from starting.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use reqwest::StatusCode;
use rustix::process::Signal;

use crate::disk::SmallDisk;
use crate::harness::{Server, Setup, event};

pub(super) async fn stop(mut server: Server) {
    server.signal(Signal::TERM);
    assert_eq!(server.ended(Duration::from_secs(30)).await, Some(0));
}

fn set(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Everything below that its group or others have any right to, links aside. What the engine removes meanwhile is gone.
fn open_to_others(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![folder.to_owned()];
    while let Some(path) = left.pop() {
        let Ok(metadata) = fs::symlink_metadata(&path) else {
            continue;
        };
        let mode = metadata.permissions().mode() & 0o777;
        if !metadata.is_symlink() && mode & 0o077 != 0 {
            found.push(format!("{mode:o} {}", path.display()));
        }
        if metadata.is_dir() {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            left.extend(entries.map(|entry| entry.path()));
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_other_user_reads_a_file_of_the_data_folder() {
    let setup = Setup::new();
    // As a package or a person made it.
    fs::create_dir_all(setup.data()).unwrap();
    set(&setup.data(), 0o755);
    let server = setup.start_ready().await;
    let reported = server
        .report(&[event("files", "run", "agent_call", 0)])
        .await;
    assert!(reported.unwrap().status().is_success());
    assert_eq!(open_to_others(&setup.data()), [""; 0]);
    stop(server).await;

    // As an earlier version left it.
    let segment = setup.data().join("log/000000000000.segment");
    for (path, mode) in [
        (setup.data(), 0o755),
        (setup.data().join("log"), 0o755),
        (setup.data().join("engine"), 0o755),
        (setup.data().join("engine/password"), 0o644),
        (segment, 0o644),
    ] {
        set(&path, mode);
    }
    let _server = setup.start_ready().await;
    assert_eq!(open_to_others(&setup.data()), [""; 0]);
    assert!(setup.logged().contains("other users could read files"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_starts_on_a_full_disk_and_goes_on_when_it_has_room_r1() {
    let setup = Setup::new();
    let disk = SmallDisk::mount(&setup.data(), 256, "mode=0700");
    let mut server = setup.start_ready().await;
    let before = event("full", "before", "agent_call", 0);
    assert_eq!(
        server.report(&[before]).await.unwrap().status(),
        StatusCode::OK
    );
    server.kill();
    drop(server);
    let filler = disk.fill_but(0);
    let server = setup.start().await;
    let live = server.client.get(format!("{}/health/live", server.url));
    assert_eq!(live.send().await.unwrap().status(), StatusCode::OK);
    assert!(
        setup
            .logged()
            .contains("the address file cannot be written yet")
    );
    let is_told = async || setup.logged().contains("on a full disk").then_some(());
    server
        .until("it waits for room", Duration::from_secs(60), is_told)
        .await;
    fs::remove_file(filler).unwrap();
    server.ready().await;
    let is_there = async || {
        let address = fs::read_to_string(setup.data().join("address")).ok()?;
        (address.trim() == server.url).then_some(())
    };
    server
        .until("the address is written", Duration::from_secs(30), is_there)
        .await;
    let run = async || (server.all_runs("full").await?.len() == 1).then_some(());
    server
        .until("the run is there", Duration::from_secs(60), run)
        .await;
}
