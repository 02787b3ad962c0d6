//! Checks without a group: readers, bounds, and appends to a chosen partition.

use std::collections::BTreeMap;
use std::time::Instant;

use bytes::Bytes;

use super::{Place, Reader, Subject, fetch, in_time, place, record};
use crate::{Fetch, Lease, Log, LogError, Position, StoredRecord, partition_of};

pub(super) async fn all(subject: &dyn Subject) {
    a_record_goes_where_it_is_told(&*place(subject, 4).await).await;
    a_record_over_the_limit_is_refused_and_one_below_is_kept(&*place(subject, 1).await).await;
    it_says_what_it_stands_on(&*place(subject, 1).await).await;
    bounds_hold_what_was_appended(&*place(subject, 3).await).await;
    a_reader_reads_from_its_positions_on(&*place(subject, 3).await).await;
    a_reader_waits_for_what_comes(&*place(subject, 2).await).await;
    a_reader_leaves_groups_alone(&*place(subject, 2).await).await;
    a_dropped_next_of_a_reader_loses_no_record(&*place(subject, 2).await).await;
    a_lease_is_held_while_partitions_are(&*place(subject, 2).await).await;
}

async fn append(log: &dyn Log, range: std::ops::Range<usize>) -> Vec<Position> {
    let mut positions = Vec::new();
    for i in range {
        let record = record(&format!("app-{}", i % 7), &format!("{i:04}"));
        positions.push(log.append(record).await.expect("append"));
    }
    positions
}

async fn begins(log: &dyn Log) -> Vec<Position> {
    let bounds = log.bounds().await.expect("bounds");
    let begins = bounds.iter().map(|bounds| Position {
        partition: bounds.partition,
        offset: bounds.begin,
    });
    begins.collect()
}

/// Reads this many, and checks that each partition is in order.
async fn read(reader: &mut dyn crate::Reader, count: usize) -> Vec<StoredRecord> {
    let mut got: Vec<StoredRecord> = Vec::new();
    in_time(&format!("{count} records of a reader"), async {
        while got.len() < count {
            got.extend(reader.next(fetch()).await.expect("next"));
        }
    })
    .await;
    let mut last: BTreeMap<u32, u64> = BTreeMap::new();
    for stored in &got {
        let at = stored.position;
        let before = last.insert(at.partition, at.offset);
        assert!(before < Some(at.offset), "{at:?} after {before:?}");
    }
    assert_eq!(got.len(), count);
    got
}

async fn it_says_what_it_stands_on(place: &dyn Place) {
    let log = place.open().await;
    append(&*log, 0..3).await;
    let inventory = log.inventory().await.expect("inventory");
    assert!(
        inventory.brokers >= 1 && inventory.topics >= 1,
        "{inventory:?}"
    );
    if let Some((held, most)) = inventory.bytes {
        assert!(held <= most, "{inventory:?}");
    }
    log.close().await;
}

async fn a_record_goes_where_it_is_told(place: &dyn Place) {
    let log = place.open().await;
    let sent = record("app", "moved");
    let elsewhere = (partition_of(&sent.key, 4) + 1) % 4;
    let at = log.append_to(elsewhere, sent.clone()).await;
    let at = at.expect("append");
    assert_eq!(at.partition, elsewhere);
    let beside = log.append(record("app", "own")).await.expect("append");
    assert_ne!(beside.partition, elsewhere);
    let mut reader = log.reader(begins(&*log).await).await.expect("reader");
    let got = read(&mut *reader, 2).await;
    let moved = got.iter().find(|stored| stored.position == at);
    assert_eq!(moved.map(|stored| &stored.record), Some(&sent));
    let refused = log.append_to(4, sent).await;
    assert!(matches!(refused, Err(LogError::Settings(_))), "{refused:?}");
}

async fn a_record_over_the_limit_is_refused_and_one_below_is_kept(place: &dyn Place) {
    let log = place.open().await;
    let limit = log.max_record_bytes();
    let mut large = record("app", "");
    large.payload = Bytes::from(vec![b'x'; limit + 1]);
    match log.append(large.clone()).await {
        Err(LogError::TooLarge { bytes, limit: said }) => {
            assert!(bytes > said && said == limit, "{bytes} of {said}");
        }
        other => panic!("{other:?}"),
    }
    // A log adds less than this to a record.
    large.payload.truncate(limit - 1024);
    let at = log.append(large.clone()).await.expect("append");
    let mut reader = log.reader(vec![at]).await.expect("reader");
    assert_eq!(read(&mut *reader, 1).await[0].record, large);
}

async fn bounds_hold_what_was_appended(place: &dyn Place) {
    let log = place.open().await;
    let empty = log.bounds().await.expect("bounds");
    let partitions: Vec<u32> = empty.iter().map(|bounds| bounds.partition).collect();
    assert_eq!(partitions, [0, 1, 2]);
    assert!(empty.iter().all(|bounds| bounds.begin == bounds.end));
    let positions = append(&*log, 0..30).await;
    let bounds = log.bounds().await.expect("bounds");
    for at in &positions {
        let of = bounds[at.partition as usize];
        assert!((of.begin..of.end).contains(&at.offset), "{at:?} in {of:?}");
    }
    for of in &bounds {
        let last = positions.iter().filter(|at| at.partition == of.partition);
        let next = last.map(|at| at.offset + 1).max();
        assert_eq!(of.end, next.unwrap_or(of.begin), "{of:?}");
    }
}

async fn a_reader_reads_from_its_positions_on(place: &dyn Place) {
    let log = place.open().await;
    let positions = append(&*log, 0..60).await;
    let mut from = begins(&*log).await;
    let mut all = log.reader(from.clone()).await.expect("reader");
    let got = read(&mut *all, 60).await;
    let mut found: Vec<Position> = got.iter().map(|stored| stored.position).collect();
    found.sort_unstable();
    let mut expected = positions.clone();
    expected.sort_unstable();
    assert_eq!(found, expected);

    // From the middle of each partition that has one, and nothing of the last partition.
    from.pop();
    for position in &mut from {
        let of = positions
            .iter()
            .filter(|at| at.partition == position.partition);
        let offsets: Vec<u64> = of.map(|at| at.offset).collect();
        position.offset = offsets.get(offsets.len() / 2).copied().unwrap_or(0);
    }
    let rest = |at: &&Position| {
        let start = from.iter().find(|start| start.partition == at.partition);
        start.is_some_and(|start| at.offset >= start.offset)
    };
    let count = positions.iter().filter(rest).count();
    let mut some = log.reader(from.clone()).await.expect("reader");
    let got = read(&mut *some, count).await;
    assert!(got.iter().all(|stored| rest(&&stored.position)));
}

async fn a_reader_waits_for_what_comes(place: &dyn Place) {
    let log = place.open().await;
    append(&*log, 0..10).await;
    let ends = log.bounds().await.expect("bounds");
    let ends = ends.iter().map(|bounds| Position {
        partition: bounds.partition,
        offset: bounds.end,
    });
    let mut reader = log.reader(ends.collect()).await.expect("reader");
    let nothing = in_time("the end of a wait", reader.next(fetch())).await;
    assert!(nothing.expect("next").is_empty());
    let patient = Fetch {
        max_wait: super::PATIENCE * 2,
        ..fetch()
    };
    let (got, positions) = in_time("the appended record", async {
        futures::join!(reader.next(patient), append(&*log, 10..11))
    })
    .await;
    let got = got.expect("next");
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].position, positions[0]);
}

async fn a_reader_leaves_groups_alone(place: &dyn Place) {
    let log = place.open().await;
    append(&*log, 0..10).await;
    let mut member = Reader::join(&*log, "g").await;
    member.own(2).await;
    let mut readers = Vec::new();
    for _ in 0..2 {
        readers.push(log.reader(begins(&*log).await).await.expect("reader"));
    }
    for reader in &mut readers {
        read(&mut **reader, 10).await;
    }
    member.read(10).await;
    assert_eq!(member.own.len(), 2, "no partition went to a reader");
    let lag = log.lag("g").await.expect("lag");
    let behind: u64 = lag.iter().map(|lag| lag.end - lag.committed).sum();
    assert_eq!(behind, 10, "no reader has committed");
}

async fn a_dropped_next_of_a_reader_loses_no_record(place: &dyn Place) {
    let log = place.open().await;
    let mut reader = log.reader(begins(&*log).await).await.expect("reader");
    let mut got = Vec::new();
    let mut sent = Vec::new();
    for i in 0..30 {
        sent.extend(append(&*log, i..i + 1).await);
        let mut next = reader.next(fetch());
        // Polled once and dropped, unless it is ready at once: then it counts.
        if let std::task::Poll::Ready(Ok(records)) = futures::poll!(&mut next) {
            got.extend(records);
        }
    }
    let left = sent.len() - got.len();
    got.extend(read(&mut *reader, left).await);
    let mut found: Vec<Position> = got.iter().map(|stored| stored.position).collect();
    found.sort_unstable();
    sent.sort_unstable();
    assert_eq!(found, sent);
}

async fn a_lease_is_held_while_partitions_are(place: &dyn Place) {
    let log = place.open().await;
    let positions = append(&*log, 0..10).await;
    let mut reader = Reader::join(&*log, "g").await;
    reader.read(10).await;
    for _ in 0..3 {
        match reader.member.lease().await.expect("a member has a lease") {
            Lease::Held => {}
            Lease::Until(end) => assert!(end > Instant::now(), "it has ended already"),
        }
    }
    // Asking for the lag commits nothing new.
    let lag = log.lag("g").await.expect("lag");
    let behind: u64 = lag.iter().map(|lag| lag.end - lag.committed).sum();
    assert_eq!(behind, positions.len() as u64);
    reader.commit_all().await;
    reader.member.lease().await.expect("a member has a lease");
}
