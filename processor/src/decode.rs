//! From log records to events.

use std::borrow::Cow;

use eventlog::StoredRecord;
use schemas::batch;
use schemas::digest::Identity;
use schemas::event::{Event, Judgement, Message};
use schemas::ids::EventId;
use schemas::record::{OLD_DAYS_HEADER, RecordHeader};
use schemas::reprice::Reprice;
use schemas::start::Start;

/// The header of records that were appended to another partition than they first lay in.
pub const MOVED: &str = "moved";

/// The header of records of events that were taken from the tables to be processed again.
pub const AGAIN: &str = "again";

/// An event of a record.
#[derive(Debug)]
pub struct DecodedEvent<'a> {
    /// The event.
    pub event: Event<'a>,
    /// Its identity.
    pub id: EventId,
    /// Its own bytes.
    pub raw: &'a str,
}

/// What is left of an event once it is folded: its row in `events`.
#[derive(Debug)]
pub struct EventLine<'a> {
    /// Which of the micro-batch's scopes it belongs to.
    pub scope: usize,
    /// When it happened.
    pub timestamp_ms: i64,
    /// The run it belongs to.
    pub run_id: Cow<'a, str>,
    /// Its identity.
    pub id: EventId,
    /// Its name.
    pub name: Cow<'a, str>,
    /// Its own bytes.
    pub raw: &'a str,
    /// When it was accepted.
    pub received_at_ms: i64,
}

/// A chat event: its row in `messages`.
#[derive(Debug)]
pub struct MessageLine<'a> {
    /// Which of the micro-batch's scopes it belongs to.
    pub scope: usize,
    /// When it was said.
    pub timestamp_ms: i64,
    /// Its identity.
    pub id: EventId,
    /// The run, or the message, it names itself by.
    pub run_id: Cow<'a, str>,
    /// The parent it names.
    pub parent_run_id: Option<Cow<'a, str>>,
    /// The thread it names.
    pub thread_id: Option<Cow<'a, str>>,
    /// The agent it names.
    pub agent: Option<Cow<'a, str>>,
    /// The user it names.
    pub user_email: Option<Cow<'a, str>>,
    /// Who said what.
    pub message: Message<'a>,
}

impl<'a> MessageLine<'a> {
    /// The line of an event that says something.
    pub fn of(scope: usize, event: &Event<'a>, id: EventId) -> Option<Self> {
        Some(Self {
            scope,
            timestamp_ms: event.timestamp_ms,
            id,
            run_id: event.run_id.clone(),
            parent_run_id: event.parent_run_id.clone(),
            thread_id: event.thread_id.clone(),
            agent: event.agent.clone(),
            user_email: event.user_email.clone(),
            message: event.message.clone()?,
        })
    }
}

/// A feedback event: its row in `feedback`.
#[derive(Debug)]
pub struct FeedbackLine<'a> {
    /// Which of the micro-batch's scopes it belongs to.
    pub scope: usize,
    /// When it was given.
    pub timestamp_ms: i64,
    /// Its identity.
    pub id: EventId,
    /// The run or message it judges.
    pub run_id: Cow<'a, str>,
    /// The judgement.
    pub judgement: Judgement<'a>,
}

impl<'a> FeedbackLine<'a> {
    /// The line of an event that judges.
    pub fn of(scope: usize, event: &Event<'a>, id: EventId) -> Option<Self> {
        Some(Self {
            scope,
            timestamp_ms: event.timestamp_ms,
            id,
            run_id: event.run_id.clone(),
            judgement: event.judgement.clone()?,
        })
    }
}

/// The start of a process: its row in `process_instances`.
#[derive(Debug)]
pub struct StartLine<'a> {
    /// Which of the micro-batch's scopes it belongs to.
    pub scope: usize,
    /// The instance.
    pub start: Start,
    /// What it was started with, JSON.
    pub input: &'a str,
}

/// Something that cannot be processed, for the dead letters.
#[derive(Debug, PartialEq, Eq)]
pub struct Poison {
    /// Which record it came from: place in the micro-batch.
    pub record: usize,
    /// Why.
    pub reason: String,
    /// The bad part of the record's payload; `None` for all of it.
    pub part: Option<String>,
    /// How many accepted events that is.
    pub events: u64,
    /// The kind of reason, for counting.
    pub code: Code,
}

/// Why something went to the dead letters, as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The record says nothing of itself that could be understood, or is no list of events.
    Record,
    /// An event of it breaks the rules.
    Event,
    /// The store takes none of its rows.
    Refused,
}

impl Code {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Record, Self::Event, Self::Refused];

    /// The label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Record => "unreadable_record",
            Self::Event => "bad_event",
            Self::Refused => "refused",
        }
    }
}

/// Reads the header of a record.
pub fn header(record: &StoredRecord) -> Result<RecordHeader, String> {
    RecordHeader::decode(headers(record)).map_err(|fault| fault.to_string())
}

/// The start of a process that the record's event reports, if it does.
pub fn start(record: &StoredRecord) -> Result<Option<Start>, String> {
    Start::decode(headers(record)).map_err(|fault| fault.to_string())
}

/// Whether the record holds runs to price again instead of events.
pub fn is_reprice(record: &StoredRecord) -> bool {
    Reprice::is_in(headers(record))
}

/// Whether the record lay in another partition before, whose owner may have stored it in part.
pub fn is_moved(record: &StoredRecord) -> bool {
    record.record.headers.iter().any(|(name, _)| name == MOVED)
}

/// Whether its events were processed before and come from the tables: they are counted as stored already (P4).
pub fn is_again(record: &StoredRecord) -> bool {
    record.record.headers.iter().any(|(name, _)| name == AGAIN)
}

/// Whether the record continues a change in a large tree; see [`schemas::reprice::Slice`].
pub fn is_slice(record: &StoredRecord) -> bool {
    Reprice::is_slice_in(headers(record))
}

/// Whether it is one that goes on below and above unchanged runs: their rows may be of an interrupted insert.
pub fn is_deep(record: &StoredRecord) -> bool {
    let reprice = Reprice::decode(&record.record.payload);
    is_slice(record) && reprice.is_ok_and(|reprice| reprice.slice.is_some_and(|slice| slice.deep))
}

/// The days before yesterday that its events lie on, as days since 1970, as ingest found them.
pub fn old_days(record: &StoredRecord) -> Vec<i64> {
    let header = headers(record).find(|(name, _)| *name == OLD_DAYS_HEADER);
    let days = header.and_then(|(_, days)| std::str::from_utf8(days).ok());
    let days = days.into_iter().flat_map(|days| days.split(','));
    days.filter_map(|day| day.parse().ok()).collect()
}

/// Whether the record says that relatives of runs are gone; see [`Reprice::is_anew`].
pub fn is_settle(record: &StoredRecord) -> bool {
    Reprice::is_anew_in(headers(record))
}

fn headers(record: &StoredRecord) -> impl Iterator<Item = (&str, &[u8])> + Clone {
    let headers = record.record.headers.iter();
    headers.map(|(name, value)| (name.as_str(), value.as_ref()))
}

/// Hands each event of the payload to `each`, in order; bad ones to `bad` with their reason.
///
/// Ingest has read the same bytes with the same rules, so a bad event here means that the rules differ between the
/// two binaries, or that the record was not written by ingest.
pub fn events<'a>(
    record: &'a StoredRecord,
    header: &RecordHeader,
    mut each: impl FnMut(DecodedEvent<'a>),
    mut bad: impl FnMut(String, &'a str),
) -> Result<(), String> {
    let identity = Identity::new(&header.project, &header.app);
    let visitor = |slot: batch::Slot<'a>| match slot.event {
        Ok(event) => {
            each(DecodedEvent {
                id: identity.of(&event, slot.raw),
                event,
                raw: slot.raw,
            });
        }
        Err(fault) => bad(fault.message, slot.raw),
    };
    batch::visit(&record.record.payload, header.received_at_ms, visitor)
        .map_err(|fault| fault.message)
}
