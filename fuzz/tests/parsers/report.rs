//! `{"events": [...]}` in both dialects, lists inside of lists included.

use fuzz::{Seeds, captured_bodies, fuzz};
use schemas::api_error::EventCode;
use schemas::batch::{self, Batch, Slot};
use schemas::digest::Identity;
use schemas::event::EventFault;
use schemas::fold::{Previews, RunState};
use schemas::ids::{AppId, ProjectId};

/// After the captures were made.
pub(crate) const NOW_MS: i64 = 1_795_200_000_000;
/// The longest message of a rejected event: a field, a rule and a value that is cut.
const MESSAGE_BYTES: usize = 1024;
const GOOD: &str = r#"{"name":"agent_start","run_id":"good","timestamp":"2024-05-01T10:00:00Z"}"#;
pub(crate) const WORDS: &[&str] = &[
    "\"events\"",
    "\"timestamp\"",
    "\"run_id\"",
    "\"runId\"",
    "\"parent_run_id\"",
    "\"event_id\"",
    "\"name\":\"agent_start\"",
    "\"type\":\"llm\"",
    "\"event\":\"end\"",
    "\"feedback\"",
    "\"tokensUsage\"",
    "2024-05-01T10:00:00.123456Z",
    "\"metadata\":{\"a\":null}",
];

pub(crate) fn seeds() -> Seeds {
    Seeds::of_files("report")
        .with_all(captured_bodies(&["/api/report", "/v1/runs/ingest"], false))
        .with(format!("{{\"events\":[{GOOD}]}}"))
        .with(format!("{{\"events\":[[[{GOOD}],[]],{GOOD},{{}}]}}"))
        .with_words(WORDS)
        .as_json()
}

#[test]
fn report() {
    fuzz!(seeds(), 600, examine);
}

fn examine(body: &[u8]) {
    let Ok(batch) = batch::read(body, NOW_MS) else {
        return;
    };
    let identity = Identity::new(&ProjectId::new("p"), &AppId::new("a"));
    let mut raws = Vec::new();
    for (index, slot) in batch.slots.iter().enumerate() {
        assert_eq!(slot.index, index, "events are numbered in order");
        assert!(serde_json::from_str::<serde::de::IgnoredAny>(slot.raw).is_ok() || is_deep(slot));
        match &slot.event {
            Ok(event) => {
                let id = identity.of(event, slot.raw);
                assert_eq!(
                    id,
                    identity.of(event, &format!(" {}\n", slot.raw)),
                    "blanks count"
                );
                folds_and_comes_back(slot, id);
            }
            Err(fault) => names_the_event(index, fault),
        }
        raws.push(slot.raw);
    }
    written_again_it_is_the_same(&batch, &raws);
    neighbors_are_not_affected(&batch, &raws);
}

fn is_deep(slot: &Slot<'_>) -> bool {
    slot.event
        .as_ref()
        .is_err_and(|fault| fault.code == EventCode::TooDeep)
}

fn names_the_event(index: usize, fault: &EventFault) {
    assert!(
        fault.message.starts_with(&format!("events[{index}]")),
        "{fault:?}"
    );
    assert!(
        fault.message.len() <= MESSAGE_BYTES,
        "{} bytes: {fault:?}",
        fault.message.len()
    );
}

/// The fold accepts what the parser accepts: duplicates change nothing, and the stored bytes give the same state (P2).
fn folds_and_comes_back(slot: &Slot<'_>, id: schemas::ids::EventId) {
    let event = slot.event.as_ref().unwrap();
    let mut state = RunState::default();
    state.apply(event, id);
    let once = state.clone();
    state.apply(event, id);
    assert_eq!(state, once, "an event counts once");
    let mut joined = RunState::default();
    joined.join(once.clone());
    assert_eq!(joined, once);
    let bytes = once.encode().unwrap();
    let Previews { input, output } = once.previews();
    assert_eq!(
        RunState::decode(&bytes, Previews { input, output }).unwrap(),
        once
    );
}

/// The processor reads a record as ingest read it.
fn written_again_it_is_the_same(batch: &Batch<'_>, raws: &[&str]) {
    let written = format!("{{\"events\":[{}]}}", raws.join(","));
    let again = batch::read(written.as_bytes(), NOW_MS).expect("what was read can be written");
    assert_eq!(again.slots.len(), batch.slots.len());
    for (before, after) in batch.slots.iter().zip(&again.slots) {
        assert_eq!(before.raw, after.raw);
        assert_eq!(format!("{:?}", before.event), format!("{:?}", after.event));
    }
}

fn neighbors_are_not_affected(batch: &Batch<'_>, raws: &[&str]) {
    let mut events = vec![GOOD];
    for raw in raws {
        events.extend([raw, GOOD]);
    }
    let body = format!("{{\"events\":[{}]}}", events.join(","));
    let again = batch::read(body.as_bytes(), NOW_MS).expect("a batch");
    for slot in &again.slots {
        if slot.index % 2 == 0 {
            assert!(
                slot.event.is_ok(),
                "a good event is refused: {:?}",
                slot.event
            );
        } else {
            let alone = &batch.slots[slot.index / 2];
            assert_eq!(slot.event.is_ok(), alone.event.is_ok(), "{}", slot.raw);
        }
    }
}
