//! The state of a run as the `runs` table keeps it.

use std::collections::BTreeMap;

use fuzz::{Seeds, captured_bodies, fuzz};
use schemas::batch;
use schemas::digest::Identity;
use schemas::fold::{Previews, RunState};
use schemas::ids::{AppId, ProjectId};
use schemas::price::PriceTable;

use crate::report::NOW_MS;

/// A state has a bounded number of tags and metadata, each of bounded length; so has its encoding.
const STATE_BYTES: usize = 256 << 10;

fn seeds() -> Seeds {
    let mut states: BTreeMap<String, RunState> = BTreeMap::new();
    let identity = Identity::new(&ProjectId::new("p"), &AppId::new("a"));
    for body in captured_bodies(&["/api/report", "/v1/runs/ingest"], false) {
        for slot in batch::read(&body, NOW_MS).unwrap().slots {
            if let Ok(event) = &slot.event {
                let state = states.entry(event.run_id.to_string()).or_default();
                state.apply(event, identity.of(event, slot.raw));
            }
        }
    }
    Seeds::of_files("state").with_all(states.values().map(|state| state.encode().unwrap()))
}

#[test]
fn state() {
    fuzz!(seeds(), 4000, examine);
}

fn examine(bytes: &[u8]) {
    let previews = Previews {
        input: "in",
        output: "out",
    };
    let Ok(state) = RunState::decode(bytes, previews) else {
        return;
    };
    let written = state.encode().expect("what was decoded can be encoded");
    assert!(written.len() <= STATE_BYTES.max(2 * bytes.len()));
    let again =
        RunState::decode(&written, state.previews()).expect("what was encoded can be decoded");
    assert_eq!(again, state);
    assert_eq!(again.encode().unwrap(), written, "one state has one form");
    // What the processor and the reads compute from a stored state.
    let _ = (
        state.status(),
        state.latency_ms(),
        state.usage(),
        state.latest_feedback(),
    );
    let _ = state.cost(&PriceTable::default());
    let mut joined = state.clone();
    joined.join(state.clone());
    let mut twice = joined.clone();
    twice.join(state);
    assert_eq!(twice, joined, "joining again changes nothing");
}
