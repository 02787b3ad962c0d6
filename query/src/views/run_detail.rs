//! A run with the fields of its events.

use std::collections::{BTreeMap, HashMap};

use schemas::event::{Event, Fields, Tokens};
use schemas::fold::full::{FullError, FullRun};
use schemas::fold::{Cost, CostStatus, ModelCall, Stamp};
use schemas::ids::EventId;
use schemas::limits::EARLIEST_TIMESTAMP_MS;
use schemas::money::Dollars;
use schemas::price::PriceTable;
use schemas::run::{
    Feedback, Instant, RunCall, RunDetail, RunError, RunEvent, UsageByKind, UsedPrice,
};
use schemas::timestamp::UnixMs;
use serde_json::value::RawValue;
use store::reads::events::{EventsOfRun, RunEvents, StoredEvent};
use store::reads::feedback::FeedbackRecord;
use store::reads::runs::RunRecord;
use store::{Store, StoreError};

/// Later than any accepted timestamp, within the range of the column: 2299-12-31.
pub(crate) const LATEST_MS: UnixMs = 10_413_705_600_000;

/// All events of a run, including those outside of its start and end: feedback is later, and `saved` can be earlier.
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

/// What a view of a run depends on beside the run.
pub(crate) struct Present<'a> {
    pub(crate) now_ms: UnixMs,
    pub(crate) prices: &'a PriceTable,
}

/// Folds the events with all of their fields.
pub(crate) fn assemble(
    run: RunRecord,
    events: RunEvents,
    history: Vec<FeedbackRecord>,
    present: Present<'_>,
) -> RunDetail {
    let full = fold(&events);
    let state = full.state();
    let usage = state.usage();
    let calls = calls(&full, &events, &run, present.prices);
    let mut unpriced_kinds: Vec<_> = calls
        .iter()
        .flat_map(|call| &call.unpriced_kinds)
        .copied()
        .collect();
    unpriced_kinds.sort_unstable();
    unpriced_kinds.dedup();
    let mut detail = RunDetail {
        usage: UsageByKind::of(usage.tokens, usage.parts),
        unpriced_kinds,
        cached_tokens: run.cached_tokens,
        reasoning_tokens: run.reasoning_tokens,
        response_id: Some(full.state().response_id().to_owned()).filter(|id| !id.is_empty()),
        cost_estimated: run.is_cost_estimated(),
        total_prompt_tokens: run.total_prompt_tokens,
        total_completion_tokens: run.total_completion_tokens,
        input: full.input().and_then(raw),
        output: full.output().and_then(raw),
        content_run_id: None,
        metadata: object(full.metadata()),
        fields: object(full.others()),
        calls,
        feedback_history: history.into_iter().map(self::feedback).collect(),
        events_truncated: events.cut,
        events: events.events.into_iter().map(run_event).collect(),
        also_in_apps: Vec::new(),
        run: run.into_run(present.now_ms),
    };
    if let Some(error) = full.error() {
        detail.run.error = Some(self::error(error));
    }
    detail
}

/// Whether a model call was reported without input and output, as some instrumentations do by default.
pub(crate) fn lacks_content(run: &RunRecord) -> bool {
    run.r#type == "llm" && run.input_preview.is_empty() && run.output_preview.is_empty()
}

/// Shows input and output of another report of the same call, if that has any.
pub(crate) fn take_content(detail: &mut RunDetail, other: &RunRecord, events: &RunEvents) {
    let full = fold(events);
    let (input, output) = (full.input().and_then(raw), full.output().and_then(raw));
    if input.is_some() || output.is_some() {
        (detail.input, detail.output) = (input, output);
        detail.content_run_id = Some(other.run_id.clone());
    }
}

fn fold(events: &RunEvents) -> FullRun {
    let mut full = FullRun::default();
    for stored in &events.events {
        if let Some(event) = read(&stored.payload) {
            full.apply(&event, EventId(stored.event_id));
        }
    }
    full
}

/// The model calls, each with the id of the event that completes it.
fn calls(full: &FullRun, events: &RunEvents, run: &RunRecord, prices: &PriceTable) -> Vec<RunCall> {
    let calls = full.state().model_calls(prices);
    if calls.is_empty() {
        return Vec::new();
    }
    let ids = events.events.iter().map(|event| {
        let id = EventId(event.event_id);
        (Stamp::new(event.timestamp, id), id)
    });
    let ids: HashMap<Stamp, EventId> = ids.collect();
    let call = |call: ModelCall<'_>| self::call(call, &ids, run);
    calls.into_iter().map(call).collect()
}

/// A model call with the event that completes it, if that is among `ids`.
pub(crate) fn call(call: ModelCall<'_>, ids: &HashMap<Stamp, EventId>, run: &RunRecord) -> RunCall {
    let cost = match run.counted_run_id.is_empty() {
        true => call.cost,
        false => Cost::none(CostStatus::CountedElsewhere),
    };
    let Tokens {
        prompt,
        completion,
        total,
        cached,
        reasoning,
    } = call.tokens;
    RunCall {
        event_id: call
            .stamp
            .and_then(|stamp| Some(ids.get(&stamp)?.to_string())),
        at: Instant(
            call.stamp
                .map_or(run.started_at, |stamp| stamp.timestamp_ms()),
        ),
        model: (!call.model.is_empty()).then(|| call.model.to_owned()),
        prompt_tokens: prompt,
        completion_tokens: completion,
        total_tokens: total,
        cached_tokens: cached,
        reasoning_tokens: reasoning,
        cost: Dollars::from(cost.amount),
        cost_status: cost.status,
        cost_estimated: cost.is_estimated,
        usage: UsageByKind::of(call.tokens, call.parts),
        service_tier: (!call.service_tier.is_empty()).then(|| call.service_tier.to_owned()),
        ttft_ms: call.ttft_ms,
        unpriced_kinds: cost.unpriced.names().collect(),
        price: call
            .price
            .filter(|_| cost.status.is_from_the_table())
            .map(|key| UsedPrice {
                model: key.model.clone(),
                prefix: key.is_prefix,
                effective_from: key.effective_from.map(Instant),
            }),
    }
}

pub(crate) fn feedback(record: FeedbackRecord) -> Feedback {
    let non_empty = |text: String| (!text.is_empty()).then_some(text);
    Feedback {
        rating: non_empty(record.rating),
        comment: non_empty(record.comment),
        at: Some(Instant(record.timestamp)),
    }
}

/// The error with its stack.
pub(crate) fn error(error: &FullError) -> RunError {
    RunError {
        name: error.name.as_deref().map(str::to_owned),
        message: error.message.to_string(),
        stack: error.stack.as_deref().map(str::to_owned),
    }
}

/// Parses a stored event. It was valid when it was accepted; the bound on future times is not checked again.
pub(crate) fn read(payload: &[u8]) -> Option<Event<'_>> {
    let text = std::str::from_utf8(payload).ok()?;
    let fields: Fields<'_> = serde_json::from_str(text).ok()?;
    Event::from_fields(fields, 0, i64::MAX / 2).ok()
}

fn run_event(event: StoredEvent) -> RunEvent {
    let text = String::from_utf8_lossy(&event.payload);
    RunEvent {
        event_id: EventId(event.event_id).to_string(),
        name: event.name,
        timestamp: Instant(event.timestamp),
        received_at: Instant(event.received_at),
        payload: raw(&text).unwrap_or_else(|| RawValue::NULL.to_owned()),
    }
}

pub(crate) fn raw(json: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(json.to_owned()).ok()
}

pub(crate) fn object<'a>(
    pairs: impl Iterator<Item = (&'a str, &'a str)>,
) -> BTreeMap<String, Box<RawValue>> {
    pairs
        .filter_map(|(key, value)| Some((key.to_owned(), raw(value)?)))
        .collect()
}
