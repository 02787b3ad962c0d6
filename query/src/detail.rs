//! The whole of one run: its row, and what its events carry beyond the row.

use std::collections::BTreeMap;

use schemas::event::{Event, Fields};
use schemas::fold::full::{FullError, FullRun};
use schemas::ids::EventId;
use schemas::limits::EARLIEST_TIMESTAMP_MS;
use schemas::run::{Feedback, Instant, RunDetail, RunError, RunEvent};
use schemas::timestamp::UnixMs;
use serde_json::value::RawValue;
use store::events_read::{EventsOfRun, RunEvents, StoredEvent};
use store::feedback_read::Judged;
use store::runs_read::RunRecord;
use store::{Store, StoreError};

/// Later than any accepted timestamp, within what the column holds: 2299-12-31.
pub(crate) const LATEST_MS: UnixMs = 10_413_705_600_000;

/// The events of a run. Not only within the times its row keeps: feedback comes after the end, `saved` may come before
/// the beginning, and both are among the run's events without being part of its fold.
pub(crate) async fn events(store: &Store, run: &RunRecord) -> Result<RunEvents, StoreError> {
    let of = EventsOfRun {
        project: &run.project_id,
        app: &run.app_id,
        run_id: &run.run_id,
        first_ms: EARLIEST_TIMESTAMP_MS,
        last_ms: LATEST_MS,
    };
    store.events_of_run(of).await
}

/// Folds the events again, this time with everything they carry.
pub(crate) fn assemble(
    run: RunRecord,
    events: RunEvents,
    feedback: Vec<Judged>,
    now_ms: UnixMs,
) -> RunDetail {
    let mut full = FullRun::default();
    for stored in &events.events {
        // Was valid when it was accepted; the bound on the future is not asked again.
        let Some(event) = read(&stored.payload) else {
            continue;
        };
        full.apply(&event, EventId(stored.event_id));
    }
    let mut detail = RunDetail {
        cached_tokens: run.cached_tokens,
        reasoning_tokens: run.reasoning_tokens,
        cost_estimated: run.is_cost_estimated(),
        total_prompt_tokens: run.total_prompt_tokens,
        total_completion_tokens: run.total_completion_tokens,
        input: full.input().and_then(raw),
        output: full.output().and_then(raw),
        metadata: object(full.metadata()),
        fields: object(full.others()),
        feedback_history: feedback.into_iter().map(judgement).collect(),
        events_truncated: events.cut,
        events: events.events.into_iter().map(shown).collect(),
        also_in_apps: Vec::new(),
        run: run.into_run(now_ms),
    };
    if let Some(error) = full.error() {
        detail.run.error = Some(self::error(error));
    }
    detail
}

/// Feedback as the API shows it.
pub(crate) fn judgement(judged: Judged) -> Feedback {
    let given = |text: String| (!text.is_empty()).then_some(text);
    Feedback {
        rating: given(judged.rating),
        comment: given(judged.comment),
        at: Some(Instant(judged.timestamp)),
    }
}

/// An error with everything that was reported of it.
pub(crate) fn error(error: &FullError) -> RunError {
    RunError {
        name: error.name.as_deref().map(str::to_owned),
        message: error.message.to_string(),
        stack: error.stack.as_deref().map(str::to_owned),
    }
}

/// A stored event.
pub(crate) fn read(payload: &[u8]) -> Option<Event<'_>> {
    let text = std::str::from_utf8(payload).ok()?;
    let fields: Fields<'_> = serde_json::from_str(text).ok()?;
    Event::from_fields(fields, 0, i64::MAX / 2).ok()
}

fn shown(event: StoredEvent) -> RunEvent {
    let text = String::from_utf8_lossy(&event.payload);
    RunEvent {
        event_id: EventId(event.event_id).to_string(),
        name: event.name,
        timestamp: Instant(event.timestamp),
        received_at: Instant(event.received_at),
        payload: raw(&text).unwrap_or_else(|| RawValue::NULL.to_owned()),
    }
}

/// JSON as it was reported.
pub(crate) fn raw(json: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(json.to_owned()).ok()
}

/// Keys with their JSON.
pub(crate) fn object<'a>(
    pairs: impl Iterator<Item = (&'a str, &'a str)>,
) -> BTreeMap<String, Box<RawValue>> {
    pairs
        .filter_map(|(key, value)| Some((key.to_owned(), raw(value)?)))
        .collect()
}
