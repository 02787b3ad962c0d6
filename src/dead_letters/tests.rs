//! Listing and redriving over logs in memory.

use std::collections::BTreeMap;
use std::sync::Mutex as StdMutex;

use bytes::Bytes;
use eventlog::{MemoryLog, Record};

use super::marks::Values;
use super::*;

#[derive(Default)]
struct Kept(StdMutex<BTreeMap<String, String>>);

#[async_trait]
impl Values for Kept {
    async fn value(&self, name: &str) -> Result<Option<String>, StoreError> {
        Ok(self.0.lock().unwrap().get(name).cloned())
    }

    async fn set(&self, name: &str, value: &str) -> Result<(), StoreError> {
        let mut values = self.0.lock().unwrap();
        values.insert(name.to_owned(), value.to_owned());
        Ok(())
    }
}

struct Fixture {
    dead: MemoryLog,
    events: MemoryLog,
    letters: Letters,
}

/// Dead letters with these payloads, alternating between two partitions.
async fn fixture(payloads: &[&str]) -> Fixture {
    let (dead, events) = (MemoryLog::new(2), MemoryLog::new(1));
    for (at, payload) in payloads.iter().enumerate() {
        let header = |name: &str, value: &str| (name.to_owned(), Bytes::from(value.to_owned()));
        let letter = Record {
            key: "p/a".into(),
            headers: vec![
                header("project", "p"),
                header("events", "2"),
                header("dead_reason", "bad"),
                header("dead_events", "2"),
            ],
            payload: (*payload).to_owned().into(),
        };
        dead.append_to(at as u32 % 2, letter).await.unwrap();
    }
    let letters = Letters {
        log: Arc::new(dead.clone()),
        events: Arc::new(events.clone()),
        marks: Marks::new(Arc::new(Kept::default())),
        turn: Mutex::default(),
        redriven_events: IntCounter::new("redriven", "redriven").unwrap(),
    };
    Fixture {
        dead,
        events,
        letters,
    }
}

impl Fixture {
    /// Every page of at most `limit` dead letters: ids, payloads, and whether they were redriven.
    async fn listed(&self, limit: usize) -> Vec<(String, String, bool)> {
        let (mut all, mut from) = (Vec::new(), None);
        loop {
            let page = self.letters.list(from, limit).await.unwrap();
            assert!(page.letters.len() <= limit);
            all.extend(page.letters.into_iter().map(|letter| {
                let payload = String::from_utf8(letter.payload).unwrap();
                (letter.id.to_string(), payload, letter.is_redriven)
            }));
            match page.next {
                Some(next) => from = Some(next),
                None => return all,
            }
        }
    }

    async fn appended(&self) -> Vec<StoredRecord> {
        let at = Position {
            partition: 0,
            offset: 0,
        };
        let fetch = Fetch {
            max_bytes: 1 << 20,
            max_wait: Duration::ZERO,
        };
        self.events
            .reader(vec![at])
            .await
            .unwrap()
            .next(fetch)
            .await
            .unwrap()
    }
}

#[tokio::test]
async fn every_letter_is_listed_once_whatever_the_pages() {
    let fixture = fixture(&["a", "b", "c", "d", "e"]).await;
    let expected: Vec<_> = [
        ("0-0", "a"),
        ("0-1", "c"),
        ("0-2", "e"),
        ("1-0", "b"),
        ("1-1", "d"),
    ]
    .map(|(id, payload)| (id.to_owned(), payload.to_owned(), false))
    .into();
    for limit in 1..7 {
        assert_eq!(fixture.listed(limit).await, expected, "pages of {limit}");
    }
}

#[tokio::test]
async fn all_are_redriven_once_and_new_ones_after_them() {
    let fixture = fixture(&["a", "b", "c"]).await;
    let done = fixture.letters.redrive(Redrive::All).await.unwrap();
    assert_eq!((done.letters, done.events, done.is_more), (3, 6, false));
    let appended = fixture.appended().await;
    assert_eq!(appended.len(), 3);
    for stored in &appended {
        let names = stored.record.headers.iter().map(|(name, _)| name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["project", "events"]);
    }
    assert!(
        fixture
            .listed(10)
            .await
            .iter()
            .all(|(_, _, redriven)| *redriven)
    );
    let again = fixture.letters.redrive(Redrive::All).await.unwrap();
    assert_eq!(again.letters, 0, "safe to repeat");
    let letter = appended[0].record.clone();
    fixture.dead.append_to(1, letter).await.unwrap();
    let done = fixture.letters.redrive(Redrive::All).await.unwrap();
    assert_eq!(done.letters, 1);
}

#[tokio::test]
async fn named_ones_are_redriven_and_those_that_are_not_there_are_told() {
    let fixture = fixture(&["a", "b", "c"]).await;
    let id = |text: &str| text.parse::<DeadLetterId>().unwrap();
    let named = vec![id("0-1"), id("0-9"), id("7-0")];
    let done = fixture
        .letters
        .redrive(Redrive::Named(named))
        .await
        .unwrap();
    assert_eq!((done.letters, done.left), (1, vec![id("0-9"), id("7-0")]));
    let listed = fixture.listed(10).await;
    let redriven: Vec<&str> = listed
        .iter()
        .filter(|(_, _, redriven)| *redriven)
        .map(|(id, ..)| id.as_str())
        .collect();
    assert_eq!(redriven, ["0-1"]);
    let done = fixture.letters.redrive(Redrive::All).await.unwrap();
    assert_eq!(done.letters, 2, "the others");
}

#[tokio::test]
async fn more_than_one_request_takes_on_are_redriven_by_several() {
    let payloads = vec!["x"; LETTERS_PER_REDRIVE + 5];
    let fixture = fixture(&payloads).await;
    let first = fixture.letters.redrive(Redrive::All).await.unwrap();
    assert_eq!(
        (first.letters as usize, first.is_more),
        (LETTERS_PER_REDRIVE, true)
    );
    let second = fixture.letters.redrive(Redrive::All).await.unwrap();
    assert_eq!((second.letters, second.is_more), (5, false));
}

#[tokio::test]
async fn a_log_that_is_closed_marks_nothing() {
    let fixture = fixture(&["a"]).await;
    fixture.events.close().await;
    assert!(fixture.letters.redrive(Redrive::All).await.is_err());
    assert!(!fixture.listed(1).await[0].2);
}
