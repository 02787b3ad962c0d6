//! The log in a real folder: locking, settings, damage, trimming, metrics.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use eventlog::{EmbeddedConfig, EmbeddedLog, Log, LogError};
use prometheus::Registry;

use super::{read_all, record, text};

pub(super) fn config(folder: &Path) -> EmbeddedConfig {
    let mut config = EmbeddedConfig::new(folder);
    config.partitions = 2;
    config.segment_bytes = 256 << 10;
    config
}

fn open(config: &EmbeddedConfig) -> Result<EmbeddedLog, LogError> {
    EmbeddedLog::open(config.clone(), &Registry::new())
}

pub(super) async fn append(log: &EmbeddedLog, range: std::ops::Range<usize>) {
    for i in range {
        let payload = format!("{i:04}:{}", "x".repeat(6000));
        let key = format!("app-{}", i % 7);
        log.append(record(&key, payload)).await.unwrap();
    }
}

pub(super) fn segments(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "segment"))
        .collect();
    files.sort();
    files
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[tokio::test]
async fn a_folder_is_used_by_one_log_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(&config(folder.path())).unwrap();
    let second = open(&config(folder.path())).err().unwrap();
    assert!(
        second.to_string().contains("another process uses"),
        "{second}"
    );
    assert!(!second.is_retryable());
    drop(log);
    open(&config(folder.path())).unwrap();
}

#[tokio::test]
async fn another_number_of_partitions_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(&config(folder.path())).unwrap());
    let mut other = config(folder.path());
    other.partitions = 3;
    let error = open(&other).err().unwrap();
    assert!(matches!(error, LogError::Settings(_)), "{error}");
    assert!(
        error.to_string().contains("made with 2 partitions"),
        "{error}"
    );
}

#[tokio::test]
async fn a_record_over_the_limit_is_too_large() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    config.max_record_bytes = 1000;
    let log = open(&config).unwrap();
    let error = log.append(record("k", "x".repeat(1000))).await.unwrap_err();
    assert!(matches!(error, LogError::TooLarge { limit: 1000, .. }));
    assert!(!error.is_retryable());
    log.append(record("k", "x".repeat(900))).await.unwrap();
}

#[tokio::test]
async fn segments_go_when_every_group_is_past_them_and_offsets_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    config.max_bytes = 2 << 20;
    let log = open(&config).unwrap();
    append(&log, 0..150).await;
    assert!(segments(folder.path()).len() > 3);
    drop(log.join("two").await.unwrap());
    for group in ["one", "two"] {
        assert_eq!(read_all(&log, group).await.len(), 150);
        let mut member = log.join(group).await.unwrap();
        let fetch = eventlog::Fetch {
            max_bytes: 1,
            max_wait: std::time::Duration::from_millis(10),
        };
        member.next(fetch).await.unwrap();
        let ends = log.lag(group).await.unwrap();
        for lag in &ends {
            member.commit(lag.partition, lag.end).await.unwrap();
        }
        if group == "one" {
            assert!(segments(folder.path()).len() > 3, "`two` still wants them");
        }
    }
    // The last commit has been answered before its trimming: `close` waits for the thread that does it.
    log.close().await;
    let ends: Vec<u64> = log
        .lag("one")
        .await
        .unwrap()
        .iter()
        .map(|l| l.end)
        .collect();
    drop(log);
    let log = open(&config).unwrap();
    log.close().await;
    assert!(segments(folder.path()).len() <= 2);
    drop(log);
    let log = open(&config).unwrap();
    let again: Vec<u64> = log
        .lag("one")
        .await
        .unwrap()
        .iter()
        .map(|l| l.end)
        .collect();
    assert_eq!(again, ends, "offsets never begin at 0 again");
    let at = log.append(record("app-0", "new".to_owned())).await.unwrap();
    assert_eq!(at.offset, ends[at.partition as usize]);
    assert_eq!(read_all(&log, "one").await.len(), 1);
}

#[tokio::test]
async fn a_forgotten_group_holds_nothing_back() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(&config(folder.path())).unwrap();
    drop(log.join("gone").await.unwrap());
    assert_eq!(log.groups(), ["gone"]);
    log.forget("gone").await.unwrap();
    assert!(log.groups().is_empty());
    drop(log);
    let log = open(&config(folder.path())).unwrap();
    assert!(log.groups().is_empty());
}

#[tokio::test]
async fn damage_is_told_and_never_read_as_a_record() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    let log = open(&config).unwrap();
    append(&log, 0..20).await;
    let expected: Vec<String> = read_all(&log, "g").await.iter().map(text).collect();
    drop(log);
    let copies = tempfile::tempdir().unwrap();
    let len = fs::metadata(&segments(folder.path())[0]).unwrap().len();
    let mut told = 0;
    for case in 0u64..24 {
        let place = copies.path().join(case.to_string());
        copy(folder.path(), &place);
        let file = &segments(&place)[0];
        let open_file = OpenOptions::new().write(true).open(file).unwrap();
        let at = len / 24 * case;
        if case % 3 == 2 {
            open_file.set_len(at).unwrap();
        } else {
            open_file.write_all_at(&[0xa5; 300], at).unwrap();
        }
        let mut damaged = config.clone();
        damaged.folder = place;
        let log = match std::panic::catch_unwind(|| open(&damaged)) {
            Ok(Ok(log)) => log,
            Ok(Err(error)) => {
                assert!(
                    matches!(error, LogError::Damaged(_) | LogError::Unavailable(_)),
                    "{error}"
                );
                told += 1;
                continue;
            }
            Err(_) => panic!("case {case}: opening must not panic"),
        };
        let mut member = log.join("check").await.unwrap();
        let fetch = eventlog::Fetch {
            max_bytes: 1 << 20,
            max_wait: std::time::Duration::from_millis(1),
        };
        loop {
            match member.next(fetch).await {
                Ok(eventlog::Delivery::Records(records)) => {
                    for stored in &records {
                        assert!(expected.contains(&text(stored)), "case {case}");
                    }
                }
                Ok(eventlog::Delivery::Idle) => break,
                Ok(_) => {}
                Err(error) => {
                    let clear = matches!(error, LogError::Damaged(_) | LogError::Unavailable(_));
                    assert!(clear, "{error}");
                    told += 1;
                    break;
                }
            }
        }
    }
    assert!(told > 5, "{told}");
}

#[tokio::test]
async fn many_appends_share_one_sync() {
    let folder = tempfile::tempdir().unwrap();
    let registry = Registry::new();
    let log = EmbeddedLog::open(config(folder.path()), &registry).unwrap();
    let before = value(&registry, "spindle_eventlog_syncs_total");
    let appends = (0..200).map(|i| log.append(record(&format!("app-{i}"), "x".to_owned())));
    for answer in futures::future::join_all(appends).await {
        answer.unwrap();
    }
    let syncs = value(&registry, "spindle_eventlog_syncs_total") - before;
    assert!(syncs < 50.0, "{syncs} syncs for 200 appends at once");
    assert_eq!(
        value(&registry, "spindle_eventlog_appended_records_total"),
        200.0
    );
    assert_eq!(
        value(&registry, "spindle_eventlog_appended_bytes_total"),
        200.0
    );
    assert_eq!(value(&registry, "spindle_eventlog_in_flight_bytes"), 0.0);
    assert!(value(&registry, "spindle_eventlog_disk_bytes") > 0.0);
}

fn value(registry: &Registry, name: &str) -> f64 {
    let families = registry.gather();
    let family = families.iter().find(|family| family.name() == name);
    let metric = &family.expect(name).get_metric()[0];
    metric.get_counter().get_value() + metric.get_gauge().get_value()
}
