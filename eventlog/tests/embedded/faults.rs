//! Full and read-only disks: a clear error, nothing lost, and back to work without a restart.

use std::io::ErrorKind;

use eventlog::{EmbeddedLog, Log, LogError};

use super::simulated_disk::SimulatedDisk;
use super::{open, read_all, record, small, text};

async fn append(log: &EmbeddedLog, i: usize) -> Result<String, LogError> {
    let payload = format!("{i:04}:{}", "x".repeat(3000));
    log.append(record(&format!("app-{}", i % 5), payload.clone()))
        .await
        .map(|_| payload)
}

async fn expect_all(log: &EmbeddedLog, kept: &[String], group: &str) {
    let mut expected = kept.to_vec();
    let mut got: Vec<String> = read_all(log, group).await.iter().map(text).collect();
    expected.sort_unstable();
    got.sort_unstable();
    assert_eq!(got.len(), expected.len());
    assert_eq!(got, expected);
}

#[tokio::test]
async fn a_full_disk_is_told_and_work_goes_on_when_there_is_room() {
    let disk = SimulatedDisk::default();
    let log = open(small(), &disk);
    let mut kept = Vec::new();
    for round in 0..3 {
        disk.set_free_pages(Some(20 + 7 * round));
        let mut refused = 0;
        for i in 0..60 {
            match append(&log, round * 100 + i).await {
                Ok(payload) => kept.push(payload),
                Err(LogError::Full(_)) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(refused > 0, "the disk had no room for all");
        disk.set_free_pages(None);
        kept.push(append(&log, round * 100 + 99).await.unwrap());
        expect_all(&log, &kept, &format!("check-{round}")).await;
    }
    drop(log);
    let log = open(small(), &disk);
    // Rejected records may be there after a restart, or not; accepted ones are.
    let got: Vec<String> = read_all(&log, "after").await.iter().map(text).collect();
    assert!(kept.iter().all(|payload| got.contains(payload)));
}

#[tokio::test]
async fn a_read_only_disk_is_told_and_work_goes_on_when_it_is_writable() {
    let disk = SimulatedDisk::default();
    let log = open(small(), &disk);
    let mut kept = Vec::new();
    for i in 0..20 {
        kept.push(append(&log, i).await.unwrap());
    }
    disk.fail_writes(Some(ErrorKind::ReadOnlyFilesystem));
    for i in 20..25 {
        let error = append(&log, i).await.unwrap_err();
        assert!(matches!(error, LogError::Unavailable(_)), "{error}");
        assert!(error.is_retryable());
    }
    let joined = log.join("new").await;
    assert!(matches!(joined.err(), Some(LogError::Unavailable(_))));
    disk.fail_writes(None);
    kept.push(append(&log, 30).await.unwrap());
    expect_all(&log, &kept, "check").await;
}

#[tokio::test]
async fn a_commit_that_fails_is_told_and_can_be_made_again() {
    let disk = SimulatedDisk::default();
    let log = open(small(), &disk);
    for i in 0..20 {
        append(&log, i).await.unwrap();
    }
    let mut member = log.join("g").await.unwrap();
    let end = log.lag("g").await.unwrap()[0].end;
    assert!(end > 0);
    let fetch = eventlog::Fetch {
        max_bytes: 1 << 20,
        max_wait: std::time::Duration::from_millis(10),
    };
    member.next(fetch).await.unwrap();
    disk.fail_syncs(1);
    assert!(member.commit(0, end).await.is_err());
    assert_eq!(log.lag("g").await.unwrap()[0].committed, 0);
    member.commit(0, end).await.unwrap();
    let after = disk.after_kill();
    drop(member);
    drop(log);
    let log = open(small(), &after);
    assert_eq!(log.lag("g").await.unwrap()[0].committed, end);
}
