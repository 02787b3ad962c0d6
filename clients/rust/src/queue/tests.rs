use proptest::prelude::*;
use serde_json::Value;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Push(usize),
    Take,
    Settle(Fate),
    Retry,
    Close,
    Leave,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (1usize..120).prop_map(Step::Push),
        4 => Just(Step::Take),
        4 => prop::sample::select(vec![Fate::Sent { accepted: 1, rejected: 0 }, Fate::Failed, Fate::Left]).prop_map(Step::Settle),
        1 => Just(Step::Retry),
        1 => Just(Step::Close),
        1 => Just(Step::Leave),
    ]
}

/// A numbered event of this many bytes.
fn event(number: usize, bytes: usize) -> String {
    format!("\"{number}{}\"", "x".repeat(bytes))
}

fn number_of(event: &Value) -> usize {
    event
        .as_str()
        .unwrap()
        .trim_end_matches('x')
        .parse()
        .unwrap()
}

proptest! {
    /// Over any history: the bounds hold, every event is counted exactly once, and what is sent is in order, complete
    /// and there once.
    #[test]
    fn bounds_hold_and_every_event_is_counted_once(
        steps in prop::collection::vec(step(), 0..300),
        queue_events in 0usize..20,
        queue_bytes in 0usize..1500,
        batch_events in 0usize..8,
        batch_bytes in 0usize..400,
    ) {
        let bounds = Bounds::of(&Settings { queue_events, queue_bytes, batch_events, batch_bytes, ..Settings::default() });
        let mut queue = Queue::new(bounds);
        let (mut pushed, mut taken, mut open) = (0, Vec::new(), Vec::new());
        for step in steps {
            match step {
                Step::Push(bytes) => {
                    // Like the client, and every other time as if another thread had intervened.
                    if bytes % 2 == 0 || !queue.refuses() {
                        queue.push(event(pushed, bytes));
                    }
                    pushed += 1;
                }
                Step::Take => if let Some(batch) = queue.take() {
                    prop_assert!(batch.body.len() <= batch_bytes);
                    prop_assert!((1..=batch_events.max(1) as u64).contains(&batch.events));
                    let body: Value = serde_json::from_str(&batch.body).unwrap();
                    let events = body["events"].as_array().unwrap();
                    prop_assert_eq!(events.len() as u64, batch.events);
                    taken.extend(events.iter().map(number_of));
                    open.push(batch.events);
                },
                Step::Settle(fate) => if let Some(events) = open.pop() {
                    queue.settle(events, fate);
                },
                Step::Retry => queue.retried(),
                Step::Close => queue.close(),
                Step::Leave => queue.leave(),
            }
            prop_assert!(queue.waiting.len() <= queue_events);
            prop_assert!(queue.bytes <= queue_bytes);
            prop_assert_eq!(queue.bytes, queue.waiting.iter().map(String::len).sum::<usize>());
            let stats = queue.stats();
            prop_assert_eq!(stats.queued, pushed as u64);
            prop_assert_eq!(stats.queued, stats.sent + stats.dropped.total() + stats.waiting);
        }
        prop_assert!(taken.windows(2).all(|pair| pair[0] < pair[1]));
    }
}

#[test]
fn whatever_fits_into_the_queue_fits_into_a_batch() {
    let mut queue = Queue::new(Bounds::of(&Settings {
        batch_bytes: 30,
        ..Settings::default()
    }));
    let largest = 30 - HEAD.len() - TAIL.len();
    queue.push(event(0, largest - 3));
    queue.push(event(1, largest - 2));
    assert_eq!(queue.stats().dropped.too_large, 1);
    let batch = queue.take().unwrap();
    assert_eq!((batch.body.len(), batch.events), (30, 1));
}

#[test]
fn a_full_batch_does_not_wait() {
    let mut queue = Queue::new(Bounds::of(&Settings {
        batch_events: 2,
        ..Settings::default()
    }));
    assert!(!queue.push(event(0, 1)));
    assert!(queue.push(event(1, 1)));
    let _ = queue.take();
    assert!(!queue.is_batch_full());
}
