use proptest::prelude::*;
use schemas::control::ProcessorState;

use super::*;

fn heartbeat(process: &str) -> Heartbeat {
    Heartbeat {
        process: process.to_owned(),
        role: "query".to_owned(),
        endpoint: format!("http://{process}"),
        ..Heartbeat::default()
    }
}

fn cleared(process: &str, orders: &[&str]) -> Heartbeat {
    Heartbeat {
        cleared: orders.iter().map(|order| (*order).to_owned()).collect(),
        ..heartbeat(process)
    }
}

fn processor(process: &str, barrier: Option<&str>) -> Heartbeat {
    Heartbeat {
        processor: Some(ProcessorState {
            barrier: barrier.map(str::to_owned),
            partitions: 4,
        }),
        ..heartbeat(process)
    }
}

fn leaving(heartbeat: Heartbeat) -> Heartbeat {
    Heartbeat {
        leaving: true,
        ..heartbeat
    }
}

fn membership() -> Membership {
    Membership::new("self".to_owned(), Duration::from_secs(2))
}

fn names(membership: &Membership, now: Instant) -> Vec<String> {
    let list = membership.list(now).into_iter();
    list.map(|known| known.heartbeat.process).collect()
}

#[test]
fn a_process_is_listed_until_it_leaves_or_is_silent_for_minutes() {
    let (mut members, start) = (membership(), Instant::now());
    members.receive(heartbeat("b"), start);
    members.receive(heartbeat("a"), start);
    assert_eq!(names(&members, start), ["a", "b"]);
    let later = start + Duration::from_secs(20);
    members.receive(heartbeat("a"), later);
    let silent: Vec<u64> = members.list(later).iter().map(|p| p.silent_ms).collect();
    assert_eq!(silent, [0, 20_000]);
    members.receive(leaving(heartbeat("a")), later);
    assert_eq!(names(&members, later), ["b"]);
    assert!(names(&members, start + LISTED_FOR).is_empty());
}

#[test]
fn an_order_awaits_processes_that_are_alive_and_counts_those_that_are_not() {
    let (mut members, start) = (membership(), Instant::now());
    members.receive(heartbeat("silent"), start);
    let now = start + Duration::from_millis(ALIVE_WITHIN_MS);
    members.receive(cleared("done", &["before", "order"]), now);
    members.receive(cleared("open", &["before"]), now);
    let progress = members.clear_progress("order", now);
    assert_eq!((progress.confirmed, progress.of), (1, 3));
    assert_eq!(progress.awaited, ["http://open"]);
    assert_eq!(progress.silent, ["http://silent"]);
    members.receive(cleared("open", &["order"]), now);
    assert!(members.clear_progress("order", now).awaited.is_empty());
}

#[test]
fn a_barrier_waits_for_a_processor_that_is_leaving_and_a_clear_does_not() {
    let (mut members, now) = (membership(), Instant::now());
    members.receive(leaving(processor("p", None)), now);
    assert!(!members.all_paused_at("b", now));
    assert!(names(&members, now).is_empty());
    assert_eq!(members.clear_progress("o", now), ClearProgress::default());
    members.receive(leaving(processor("p", Some("b"))), now);
    assert!(members.all_paused_at("b", now));
    assert!(!members.all_paused_at("other", now));
    members.receive(leaving(processor("p", None)), now);
    members.receive(leaving(heartbeat("p")), now);
    assert!(members.all_paused_at("b", now), "it stopped");
}

#[test]
fn the_most_silent_process_is_dropped_at_the_bound_and_no_barrier_holds_until_it_stores_nothing() {
    let (mut members, start) = (membership(), Instant::now());
    for at in 0..=MEMBERS_MAX {
        let now = start + Duration::from_millis(at as u64);
        members.receive(processor(&format!("{at:05}"), Some("b")), now);
    }
    let now = start + Duration::from_secs(5);
    let names = names(&members, now);
    assert_eq!((names.len(), names[0].as_str()), (MEMBERS_MAX, "00001"));
    assert!(!members.all_paused_at("b", now));
    let later = start + Duration::from_millis(MEMBERS_MAX as u64) + FORGOTTEN_AFTER;
    assert!(members.all_paused_at("b", later));
}

#[test]
fn a_process_recognizes_its_own_heartbeats_and_does_not_list_itself() {
    let (mut members, start) = (membership(), Instant::now());
    let second = Duration::from_secs(1);
    let published: Vec<Heartbeat> = (0..3u32)
        .map(|at| members.stamp(heartbeat("x"), start + second * at))
        .collect();
    assert_eq!(published[0].process, "self");
    let now = start + second * 4;
    assert_eq!(
        members.receive(published[1].clone(), now),
        Some(start + second)
    );
    members.forget_published();
    assert_eq!(members.receive(published[2].clone(), now), None);
    assert!(names(&members, now).is_empty(), "lists others only");
}

#[test]
fn a_heartbeat_is_due_after_the_interval_or_at_once() {
    let (mut members, start) = (membership(), Instant::now());
    assert!(members.is_due(start));
    members.stamp(Heartbeat::default(), start);
    assert!(!members.is_due(start + Duration::from_secs(1)));
    members.publish_soon();
    assert!(members.is_due(start + Duration::from_secs(1)));
    members.stamp(Heartbeat::default(), start + Duration::from_secs(1));
    assert!(!members.is_due(start + Duration::from_secs(2)));
    assert!(members.is_due(start + Duration::from_secs(3)));
}

proptest! {
    /// Against a model without bounds: what is kept stays within them, and a processor that was dropped for them is
    /// waited for nevertheless.
    #[test]
    fn memory_is_bounded_and_no_barrier_holds_while_a_processor_may_store(
        events in proptest::collection::vec((0u8..12, 0u8..6, 0u64..9_000), 1..150)
    ) {
        const BOUND: usize = 4;
        let mut members = membership();
        members.others_max = BOUND;
        let mut now = Instant::now();
        let mut model: BTreeMap<String, (bool, Instant)> = BTreeMap::new();
        for (who, kind, ms) in events {
            now += Duration::from_millis(ms / 4);
            let name = format!("p{who}");
            let (received, is_paused) = match kind {
                0 => (leaving(heartbeat(&name)), None),
                1 => (heartbeat(&name), None),
                2 => (processor(&name, None), Some(false)),
                3 => (leaving(processor(&name, None)), Some(false)),
                4 => (processor(&name, Some("other")), Some(false)),
                _ => (processor(&name, Some("b")), Some(true)),
            };
            members.receive(received, now);
            match is_paused {
                Some(is_paused) => model.insert(name, (is_paused, now)),
                None => model.remove(&name),
            };
            members.stamp(Heartbeat::default(), now);
            prop_assert!(members.others.len() <= BOUND);
            let mut live = model.values().filter(|(_, at)| now < *at + FORGOTTEN_AFTER);
            prop_assert!(!members.all_paused_at("b", now) || live.all(|(is_paused, _)| *is_paused));
        }
        let progress = members.clear_progress("o", now);
        prop_assert_eq!(progress.awaited.len() + progress.silent.len(), progress.of);
        prop_assert_eq!(members.list(now).len(), progress.of);
        now += FORGOTTEN_AFTER;
        prop_assert!(members.all_paused_at("b", now), "silent processors are forgotten");
    }
}
