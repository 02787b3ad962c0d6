//! Segments that were removed or damaged: reported with the lost records, and no reason to stop.

use std::fs;
use std::path::{Path, PathBuf};

use eventlog::{EmbeddedConfig, EmbeddedLog, Fetch, Log, LogError};
use prometheus::Registry;

use super::folder::{append, config, segments};
use super::{read_all, record};

fn open(config: &EmbeddedConfig) -> (Result<EmbeddedLog, LogError>, Registry) {
    let registry = Registry::new();
    let log = EmbeddedLog::open(config.clone(), &registry);
    (log, registry)
}

fn lost(registry: &Registry) -> f64 {
    let families = registry.gather();
    let name = "spindle_eventlog_lost_records_total";
    let family = families.iter().find(|family| family.name() == name);
    family.unwrap().get_metric()[0].get_counter().get_value()
}

/// A log of several segments with a group that has processed nothing, closed in order.
async fn filled(folder: &Path) -> (EmbeddedConfig, Vec<PathBuf>) {
    let config = config(folder);
    let log = open(&config).0.unwrap();
    drop(log.join("slow").await.unwrap());
    append(&log, 0..150).await;
    log.close().await;
    drop(log);
    let files = segments(folder);
    assert!(files.len() >= 4, "{files:?}");
    (config, files)
}

async fn commit_all(log: &EmbeddedLog) {
    let mut member = log.join("slow").await.unwrap();
    let fetch = Fetch {
        max_bytes: 1,
        max_wait: std::time::Duration::from_millis(10),
    };
    member.next(fetch).await.unwrap();
    for lag in log.lag("slow").await.unwrap() {
        member.commit(lag.partition, lag.end).await.unwrap();
    }
}

#[tokio::test]
async fn a_removed_segment_is_told_with_its_records_and_reading_goes_on_behind_it() {
    for removed in [0, 1] {
        let folder = tempfile::tempdir().unwrap();
        let (config, files) = filled(folder.path()).await;
        fs::remove_file(&files[removed]).unwrap();
        let (log, registry) = open(&config);
        let log = log.unwrap();
        let [loss] = log.losses() else {
            panic!("{:?}", log.losses())
        };
        let records = loss.records().unwrap();
        assert_eq!(*loss.segments.start(), removed as u64);
        assert_eq!(read_all(&log, "slow").await.len() as u64, 150 - records);
        assert_eq!(lost(&registry), records as f64);
        assert!(records > 20, "{loss}");
        commit_all(&log).await;
        log.close().await;
        drop(log);
        let (log, registry) = open(&config);
        assert!(log.unwrap().losses().is_empty(), "processing is past it");
        assert_eq!(lost(&registry), 0.0);
    }
}

#[tokio::test]
async fn the_newest_segment_is_missed_and_its_offsets_are_not_given_again() {
    let folder = tempfile::tempdir().unwrap();
    let (config, files) = filled(folder.path()).await;
    fs::remove_file(files.last().unwrap()).unwrap();
    let log = open(&config).0.unwrap();
    let records = log.losses()[0].records().expect("it was closed in order");
    let ends: u64 = log.lag("slow").await.unwrap().iter().map(|of| of.end).sum();
    assert_eq!(ends, 150, "also of those that are gone");
    assert_eq!(read_all(&log, "slow").await.len() as u64, 150 - records);
    // After a kill, the log cannot know what was in its newest segment, only that there was one.
    log.append(record("k", "x".to_owned())).await.unwrap();
    commit_all(&log).await;
    drop(log);
    fs::remove_file(segments(folder.path()).last().unwrap()).unwrap();
    let (log, registry) = open(&config);
    let log = log.unwrap();
    assert_eq!(log.losses()[0].records(), None);
    assert_eq!(lost(&registry), 1.0);
    log.append(record("k", "x".to_owned())).await.unwrap();
    log.close().await;
    drop(log);
    assert!(open(&config).0.unwrap().losses().is_empty(), "told once");
}

#[tokio::test]
async fn every_segment_is_removed_and_nothing_is_lost_that_was_not_processed() {
    let folder = tempfile::tempdir().unwrap();
    let (config, _) = filled(folder.path()).await;
    let log = open(&config).0.unwrap();
    commit_all(&log).await;
    log.close().await;
    drop(log);
    for file in segments(folder.path()) {
        fs::remove_file(file).unwrap();
    }
    let log = open(&config).0.unwrap();
    assert!(log.losses().is_empty());
    let ends: u64 = log.lag("slow").await.unwrap().iter().map(|of| of.end).sum();
    assert_eq!(ends, 150);
}

#[tokio::test]
async fn a_damaged_segment_stops_the_start_with_what_to_do_unless_it_was_processed() {
    let folder = tempfile::tempdir().unwrap();
    let (config, files) = filled(folder.path()).await;
    let damage = |file: &Path| fs::write(file, [0xa5; 5000]).unwrap();
    damage(&files[1]);
    let error = open(&config).0.err().unwrap();
    assert!(matches!(error, LogError::Damaged(_)), "{error}");
    let (text, path) = (error.to_string(), files[1].display().to_string());
    for part in [
        &*path,
        "accepted records that were not processed: partition",
        "backup",
        &format!("mv {path} {path}.damaged"),
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Follow the instructions of the error.
    fs::rename(&files[1], format!("{path}.damaged")).unwrap();
    let log = open(&config).0.unwrap();
    assert_eq!(log.losses().len(), 1);
    commit_all(&log).await;
    log.close().await;
    drop(log);

    // One that should have been removed and was not.
    damage(&files[0]);
    let log = open(&config).0.unwrap();
    assert!(log.losses().is_empty());
    assert!(!files[0].exists() && files[0].with_extension("segment.damaged").exists());
}
