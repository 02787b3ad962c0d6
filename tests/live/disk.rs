//! Full and read-only disks: a clear error, 503, no corruption, and recovery by itself when space returns (R1, X1).
//!
//! A small file system of memory is mounted where the server writes, which needs the right to mount (root).
//! Without that right the tests say so and fail: they are not skipped in silence.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use reqwest::StatusCode;
use rustix::process::Signal;
use serde_json::json;

use crate::harness::{Server, Setup, VISIBLE_WITHIN, event, kill};

/// A file system of a few MiB, unmounted when dropped.
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    pub(crate) fn mount(at: &Path, mib: usize, mode: &str) -> Self {
        fs::create_dir_all(at).unwrap();
        let options = format!("size={mib}m,{mode}");
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "none"])
            .arg(at)
            .output()
            .unwrap();
        let why = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(
            done.status.success(),
            "a disk to fill cannot be mounted here (run the tests as root): {why}"
        );
        Self(at.to_owned())
    }

    /// Takes all space but so many MiB, while others write too: what they took since the look is looked at again.
    pub(crate) fn fill_but(&self, mib: usize) -> PathBuf {
        let filler = self.0.join("filler");
        for _ in 0..50 {
            let stat = rustix::fs::statvfs(&self.0).unwrap();
            let free = (stat.f_bavail * stat.f_frsize) as usize;
            match fs::write(&filler, vec![1; free.saturating_sub(mib << 20)]) {
                Ok(()) => return filler,
                Err(error) if error.kind() == std::io::ErrorKind::StorageFull => {
                    fs::remove_file(&filler).unwrap();
                }
                Err(error) => panic!("the disk cannot be filled: {error}"),
            }
        }
        panic!("the disk fills faster than it can be filled");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Posts batches of about half a MiB until one is refused; gives the runs accepted and the refusal.
async fn report_until_refused(server: &Server, app: &str) -> (Vec<String>, reqwest::Response) {
    let mut accepted = Vec::new();
    for batch in 0..2000 {
        let runs: Vec<String> = (0..8).map(|of| format!("run-{batch}-{of}")).collect();
        let events: Vec<_> = runs
            .iter()
            .enumerate()
            .map(|(of, run)| {
                let mut event = event(app, run, "agent_call", batch * 10 + of as i64);
                // Nothing that compresses: the disk has to take it.
                let noise: String = (0..4096)
                    .map(|_| format!("{:016x}", rand::random::<u64>()))
                    .collect();
                event["output"] = json!({ "noise": noise });
                event
            })
            .collect();
        let answer = server.report(&events).await.expect("the server answers");
        if answer.status() != StatusCode::OK {
            return (accepted, answer);
        }
        accepted.extend(runs);
    }
    panic!("the disk took everything");
}

async fn assert_all_there(server: &Server, app: &str, accepted: &[String]) {
    let runs = server
        .until("every accepted run is there", VISIBLE_WITHIN, async || {
            let runs = server.all_runs(app).await?;
            (runs.len() >= accepted.len()).then_some(runs)
        })
        .await;
    let mut found: Vec<&str> = runs
        .iter()
        .map(|run| run["run_id"].as_str().unwrap())
        .collect();
    let all = found.len();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), all, "no run is there twice");
    assert!(
        accepted
            .iter()
            .all(|run| found.binary_search(&run.as_str()).is_ok()),
        "an accepted run is lost"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_log_disk_answers_503_and_takes_events_again_when_space_returns_x1() {
    let setup = Setup::new().with("log.segment_bytes", "4 MiB");
    let disk = SmallDisk::mount(&setup.data().join("log"), 96, "mode=0700");
    let server = setup.start_ready().await;
    assert_eq!(
        server
            .report(&[event("full", "first", "agent_call", 0)])
            .await
            .unwrap()
            .status(),
        StatusCode::OK
    );

    // The engine stands still, so nothing leaves the log.
    let engine = server.engine_pid().unwrap();
    kill(engine, Signal::STOP);
    let filler = disk.fill_but(24);
    let (accepted, refusal) = report_until_refused(&server, "full").await;
    assert!(!accepted.is_empty());
    assert_eq!(refusal.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(refusal.headers().contains_key("retry-after"));
    let live = server
        .client
        .get(format!("{}/health/live", server.url))
        .send()
        .await
        .unwrap();
    assert_eq!(live.status(), StatusCode::OK, "the server is unharmed");

    fs::remove_file(filler).unwrap();
    server
        .until(
            "events are accepted again",
            Duration::from_secs(60),
            async || {
                let answer = server
                    .report(&[event("full", "after", "agent_call", 1)])
                    .await
                    .ok()?;
                (answer.status() == StatusCode::OK).then_some(())
            },
        )
        .await;
    kill(engine, Signal::CONT);
    assert_all_there(&server, "full", &accepted).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_on_a_full_log_disk_loses_nothing_r1() {
    let setup = Setup::new().with("log.segment_bytes", "4 MiB");
    let disk = SmallDisk::mount(&setup.data().join("log"), 96, "mode=0700");
    let mut server = setup.start_ready().await;
    kill(server.engine_pid().unwrap(), Signal::STOP);
    let filler = disk.fill_but(24);
    let (accepted, _) = report_until_refused(&server, "killed").await;
    server.kill();
    fs::remove_file(filler).unwrap();
    let server = setup.start_ready().await;
    assert_all_there(&server, "killed", &accepted).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_engine_disk_holds_events_in_the_log_until_space_returns_p1() {
    let setup = Setup::new();
    let disk = SmallDisk::mount(&setup.data().join("engine"), 256, "mode=0700");
    let server = setup.start_ready().await;
    let filler = disk.fill_but(0);
    let accepted: Vec<String> = (0..50).map(|run| format!("run-{run}")).collect();
    let noise = "x".repeat(2000);
    for run in &accepted {
        let mut event = event("engine-full", run, "agent_call", 0);
        event["output"] = json!({ "noise": noise });
        assert_eq!(
            server.report(&[event]).await.unwrap().status(),
            StatusCode::OK,
            "reporting goes on"
        );
    }
    server
        .until(
            "the processor has met the full disk",
            Duration::from_secs(60),
            async || (server.metric("spindle_store_insert_errors_total").await > 0.0).then_some(()),
        )
        .await;
    fs::remove_file(filler).unwrap();
    assert_all_there(&server, "engine-full", &accepted).await;
}

#[tokio::test]
async fn a_read_only_data_folder_is_told_in_one_line() {
    let setup = Setup::new();
    let _disk = SmallDisk::mount(&setup.data(), 1, "ro");
    let mut child = setup.spawn();
    let status = tokio::task::spawn_blocking(move || child.wait().unwrap())
        .await
        .unwrap();
    assert_eq!(status.code(), Some(1));
    let logged = setup.logged();
    let complaints: Vec<&str> = logged
        .lines()
        .filter(|line| line.starts_with("spindle:"))
        .collect();
    assert_eq!(complaints.len(), 1, "{logged}");
    assert!(
        complaints[0].contains("cannot write in the data folder"),
        "{logged}"
    );
}
