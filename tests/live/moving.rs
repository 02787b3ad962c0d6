//! A deployment goes from one place to another: `export-log`, then `replay`.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use reqwest::StatusCode;
use serde_json::Value;

use crate::harness::{Setup, VISIBLE_WITHIN};
use crate::load::{Load, Traffic};

const SEED: u64 = 4;

/// Runs a command of the binary with the settings of a deployment.
fn command(setup: &Setup, name: &str, file: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
    command
        .arg(name)
        .arg(file)
        .args(more)
        .arg("--data-dir")
        .arg(setup.data())
        .current_dir(setup.folder.path())
        .envs(setup.variables.iter().map(|(name, value)| (name, value)));
    command
}

fn done(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// What readers see of every run of an app, in one order.
fn by_id(mut runs: Vec<Value>) -> Vec<Value> {
    runs.sort_by_key(|run| run["run_id"].as_str().unwrap_or_default().to_owned());
    runs
}

async fn moved_to(new: &Setup) {
    let old = Setup::new();
    let mut server = old.start_ready().await;
    let load = Load::start(&server, Traffic::new("moving", SEED, 2));
    server
        .until(
            "there is something to move",
            Duration::from_secs(60),
            async || (load.accepted() > 150).then_some(()),
        )
        .await;
    let accepted = load.finish().await;
    // What is in the log and in no table has to come along.
    server.kill();

    let file = old.folder.path().join("spindle.export");
    let told = done(command(&old, "export-log", &file, &[]).output().unwrap());
    assert!(told.contains("events in"), "{told}");

    let server = old.start_ready().await;
    accepted.assert_found_once(&server).await;
    let expected = by_id(server.all_runs("moving").await.unwrap());
    let again = command(&old, "export-log", &file, &[]).output().unwrap();
    assert!(!again.status.success(), "a running server is left alone");
    drop(server);

    let told = done(
        command(new, "replay", &file, &["--dry-run"])
            .output()
            .unwrap(),
    );
    assert!(told.contains("events in"), "{told}");
    assert!(!old.folder.path().join("spindle.export.position").exists());
    // Killed somewhere, and repeated: nothing is lost and nothing comes twice.
    let mut killed = command(new, "replay", &file, &[]).spawn().unwrap();
    tokio::time::sleep(Duration::from_millis(1200)).await;
    let _ = killed.kill();
    let _ = killed.wait();
    done(command(new, "replay", &file, &[]).output().unwrap());

    let server = new.start_ready().await;
    let found = server
        .until("all runs are there", VISIBLE_WITHIN, async || {
            // The key of the old deployment opens the new one.
            let (status, _) = server
                .get_as(&old.key, "/api/run/?app_id=moving&limit=1")
                .await;
            if status != StatusCode::OK {
                return None;
            }
            let found = by_id(server.all_runs("moving").await?);
            (found == expected).then_some(found)
        })
        .await;
    assert_eq!(found.len(), accepted.runs.len());
    accepted.assert_found_once(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standalone_deployment_moves_to_another_one_with_every_run_equal() {
    moved_to(&Setup::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standalone_deployment_moves_to_a_distributed_one_with_every_run_equal() {
    moved_to(&Setup::distributed().await).await;
}
