//! From log records to events.

use std::borrow::Cow;

use eventlog::StoredRecord;
use schemas::batch;
use schemas::digest::Identity;
use schemas::event::{Dialect, Event, EventFeedback, Message};
use schemas::ids::EventId;
use schemas::record::{OLD_DAYS_HEADER, RecordHeader};
use schemas::reprice::Reprice;
use schemas::start::Start;

/// Header of records that were moved to another partition.
pub const MOVED: &str = "moved";

#[derive(Debug)]
pub struct DecodedEvent<'a> {
    pub event: Event<'a>,
    pub id: EventId,
    /// The event's own bytes.
    pub raw: &'a str,
}

/// The part of an event that outlives the fold: its row in `events`.
#[derive(Debug)]
pub struct EventLine<'a> {
    /// Index of its scope in the micro-batch.
    pub scope: usize,
    pub timestamp_ms: i64,
    pub run_id: Cow<'a, str>,
    pub id: EventId,
    pub name: Cow<'a, str>,
    pub raw: &'a str,
    pub received_at_ms: i64,
}

/// A chat event: its row in `messages`.
#[derive(Debug)]
pub struct MessageLine<'a> {
    pub scope: usize,
    pub timestamp_ms: i64,
    pub id: EventId,
    /// The run or message id in the event.
    pub run_id: Cow<'a, str>,
    pub parent_run_id: Option<Cow<'a, str>>,
    pub thread_id: Option<Cow<'a, str>>,
    /// Whether it takes the thread of another message of its run if it names none.
    pub inherits_thread: bool,
    pub agent: Option<Cow<'a, str>>,
    pub user_email: Option<Cow<'a, str>>,
    pub message: Message<'a>,
}

impl<'a> MessageLine<'a> {
    /// `None` if the event contains no message.
    pub fn of(scope: usize, event: &Event<'a>, id: EventId) -> Option<Self> {
        Some(Self {
            scope,
            timestamp_ms: event.timestamp_ms,
            id,
            run_id: event.run_id.clone(),
            parent_run_id: event.parent_run_id.clone(),
            thread_id: event.thread_id.clone(),
            inherits_thread: event.dialect == Dialect::Llmonitor,
            agent: event.agent.clone(),
            user_email: event.user_email.clone(),
            message: event.message.clone()?,
        })
    }
}

/// A feedback event: its row in `feedback`.
#[derive(Debug)]
pub struct FeedbackLine<'a> {
    pub scope: usize,
    pub timestamp_ms: i64,
    pub id: EventId,
    /// The rated run or message.
    pub run_id: Cow<'a, str>,
    pub feedback: EventFeedback<'a>,
}

impl<'a> FeedbackLine<'a> {
    /// `None` if the event contains no feedback.
    pub fn of(scope: usize, event: &Event<'a>, id: EventId) -> Option<Self> {
        Some(Self {
            scope,
            timestamp_ms: event.timestamp_ms,
            id,
            run_id: event.run_id.clone(),
            feedback: event.feedback.clone()?,
        })
    }
}

/// The start of a process: its row in `process_instances`.
#[derive(Debug)]
pub struct StartLine<'a> {
    pub scope: usize,
    pub start: Start,
    /// The input of the process, JSON.
    pub input: &'a str,
}

pub fn header(record: &StoredRecord) -> Result<RecordHeader, String> {
    RecordHeader::decode(headers(record)).map_err(|fault| fault.to_string())
}

/// The process start that the record's event reports, if any.
pub fn start(record: &StoredRecord) -> Result<Option<Start>, String> {
    Start::decode(headers(record)).map_err(|fault| fault.to_string())
}

/// Whether the record holds runs to reprice instead of events.
pub fn is_reprice(record: &StoredRecord) -> bool {
    Reprice::is_in(headers(record))
}

/// Whether the record was moved from another partition, whose owner may have stored it partially.
pub fn is_moved(record: &StoredRecord) -> bool {
    record.record.headers.iter().any(|(name, _)| name == MOVED)
}

/// Whether the record continues a change in a large tree; see [`schemas::reprice::Slice`].
pub fn is_slice(record: &StoredRecord) -> bool {
    Reprice::is_slice_in(headers(record))
}

/// Whether the slice continues below and above unchanged runs: their rows may come from an interrupted insert.
pub fn is_deep(record: &StoredRecord) -> bool {
    let reprice = Reprice::decode(&record.record.payload);
    is_slice(record) && reprice.is_ok_and(|reprice| reprice.slice.is_some_and(|slice| slice.deep))
}

/// The days before yesterday of its events, in days since 1970, as ingest determined them.
pub fn old_days(record: &StoredRecord) -> Vec<i64> {
    let header = headers(record).find(|(name, _)| *name == OLD_DAYS_HEADER);
    let days = header.and_then(|(_, days)| std::str::from_utf8(days).ok());
    let days = days.into_iter().flat_map(|days| days.split(','));
    days.filter_map(|day| day.parse().ok()).collect()
}

/// Whether the record says that relatives of runs were dropped; see [`Reprice::resolves_relations`].
pub fn is_recompute(record: &StoredRecord) -> bool {
    Reprice::resolves_relations_in(headers(record))
}

fn headers(record: &StoredRecord) -> impl Iterator<Item = (&str, &[u8])> + Clone {
    let headers = record.record.headers.iter();
    headers.map(|(name, value)| (name.as_str(), value.as_ref()))
}

/// Calls `each` with every event of the payload, in order, and `bad` with every unreadable one and its reason. A message
/// without a run has its own identity as its id.
///
/// Ingest has read the same bytes with the same rules, so a bad event means that the rules of the two binaries differ,
/// or that the record was not written by ingest.
pub fn events<'a>(
    record: &'a StoredRecord,
    header: &RecordHeader,
    mut each: impl FnMut(DecodedEvent<'a>),
    mut bad: impl FnMut(String, &'a str),
) -> Result<(), String> {
    let identity = Identity::new(&header.project, &header.app);
    let visitor = |slot: batch::Slot<'a>| match slot.event {
        Ok(mut event) => {
            let id = identity.of(&event, slot.raw);
            if event.run_id.is_empty() {
                event.run_id = id.to_string().into();
            }
            each(DecodedEvent {
                event,
                id,
                raw: slot.raw,
            });
        }
        Err(fault) => bad(fault.message, slot.raw),
    };
    batch::visit(&record.record.payload, header.received_at_ms, visitor)
        .map_err(|fault| fault.message)
}
