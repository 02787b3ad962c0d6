//! Unreadable and rejected records: single ones are dead-lettered; when all are, the processor stops.

use std::sync::Arc;

use bytes::Bytes;
use eventlog::{Log, MemoryLog, StoredRecord};
use processor::{GROUP, ProcessorError, Status};

use crate::memory_tables::MemoryTables;
use crate::worker::{event, record, start};

fn header(letter: &StoredRecord, name: &str) -> String {
    let headers = &letter.record.headers;
    let mut found = headers.iter().filter(|(key, _)| key == name);
    let value = String::from_utf8(found.next().unwrap().1.to_vec()).unwrap();
    assert!(found.next().is_none(), "{name} comes twice");
    value
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_everything_is_bad_the_processor_stops_and_it_stays_in_the_log_p1() {
    let (log, tables) = (MemoryLog::new(1), MemoryTables::default());
    let mut bad = record(&[event(1)]);
    bad.payload = Bytes::from_static(b"{");
    for _ in 0..150 {
        log.append(bad.clone()).await.unwrap();
    }
    let running = start(&log, Arc::new(tables.clone()));
    let (dead_letters, status) = (running.dead_letters.clone(), running.status.clone());
    let outcome = running.ended().await;
    let Err(ProcessorError::AllBad { records, .. }) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(records >= 100, "{records}");
    assert_eq!(*status.borrow(), Status::Stopped);
    // Whatever was buried before was committed, and nothing else.
    let buried = dead_letters.contents().len() as u64;
    assert!(buried < 100);
    assert_eq!(log.committed(GROUP), [buried]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_the_store_refuses_goes_to_the_dead_letters_and_the_rest_is_stored_p1() {
    let (log, tables) = (MemoryLog::new(1), MemoryTables::default());
    tables.refuse_runs("cursed", 69);
    let mut cursed = event(7);
    cursed["run_id"] = "cursed".into();
    for at in 0..40 {
        let events = match at {
            13 | 27 => vec![event(at), cursed.clone()],
            _ => vec![event(at), event(at + 100)],
        };
        log.append(record(&events)).await.unwrap();
    }
    let running = start(&log, Arc::new(tables.clone()));
    running.drained().await;
    assert_eq!(tables.visible_runs().len(), 76);
    tables.assert_one_row_per_run();
    let letters = running.dead_letters.contents();
    let offsets: Vec<String> = letters
        .iter()
        .map(|letter| header(letter, "dead_offset"))
        .collect();
    assert_eq!(offsets, ["13", "27"], "each once");
    let reason = header(&letters[0], "dead_reason");
    assert!(
        reason.contains("69") && !reason.contains("says"),
        "{reason}"
    );
    assert_eq!(header(&letters[0], "dead_events"), "2");
    assert_eq!(letters[0].record.payload, log.contents()[13].record.payload);
    assert_eq!(running.metrics.stored_events.get(), 76, "(P4)");
    assert_eq!(running.metrics.dead_lettered_total(), 4, "(P4)");
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_refuses_everything_stops_the_processor_with_nothing_committed_p1() {
    // A column that is not there; and an unknown fault.
    for code in [16, 4242] {
        let (log, tables) = (MemoryLog::new(1), MemoryTables::default());
        tables.refuse_runs("r", code);
        for at in 0..10 {
            log.append(record(&[event(at)])).await.unwrap();
        }
        let running = start(&log, Arc::new(tables.clone()));
        let dead_letters = running.dead_letters.clone();
        let outcome = running.ended().await;
        assert!(
            matches!(outcome, Err(ProcessorError::AllRejected(_))),
            "{outcome:?}"
        );
        assert_eq!(log.committed(GROUP), [0]);
        assert!(dead_letters.contents().is_empty());
    }
}
