//! Bounds on reported data. Each has a name, a unit and a reason (X1).

/// Default bound on the decompressed bytes of one `/api/report` body: what API.md promises clients.
pub const BODY_BYTES_DEFAULT: usize = 10 << 20;
/// Bytes of one event: what API.md promises clients; one event must fit into a broker's record with room to spare.
pub const EVENT_BYTES: usize = 1 << 20;
/// Bytes of an identifier (run, parent, app, thread, event): API.md. Long enough for a URL-like id, short enough for an index.
pub const ID_BYTES: usize = 256;
/// Bytes of a name (event, run, model, agent, user, a tag): API.md.
pub const NAME_BYTES: usize = 512;
/// Lists of events inside lists of events. Clients were seen to nest 151 levels after 75 s of outage, one level per
/// half second; 4096 levels is over half an hour of that.
pub const EVENT_LIST_DEPTH: usize = 4096;
/// Levels of objects and arrays inside one event: bounds the stack of every later walk over a payload.
pub const EVENT_VALUE_DEPTH: usize = 512;
/// Fields of one event, and of its metadata: each is 40 bytes in memory and may be 6 in the body.
pub const EVENT_FIELDS: usize = 4096;
/// Tags on one event: tags unite over a run's events, so they are bounded here and again in the fold.
pub const EVENT_TAGS: usize = 64;
/// Rejections listed in a response; the count in `rejected` is always exact.
pub const REPORTED_ERRORS: usize = 100;
/// Values without effect that are reported one by one in an answer.
pub const REPORTED_WARNINGS: usize = 100;
/// Bytes of one log record's payload after which a batch is split. Kafka's default `max.message.bytes` (1 MiB) would
/// split every large batch, so topics are created with 4 MiB and records stay below 2 MiB unless a single event is
/// larger.
pub const RECORD_BYTES: usize = 2 << 20;
/// A timestamp further ahead of the server's clock is rejected, milliseconds: API.md, one day.
pub const FUTURE_TIMESTAMP_MS: i64 = 24 * 60 * 60 * 1000;
/// The earliest accepted timestamp, 2000-01-01T00:00:00Z in Unix milliseconds: API.md.
pub const EARLIEST_TIMESTAMP_MS: i64 = 946_684_800_000;
/// Distinct days (UTC) of the events of one report. Each day is a partition of every table, so storing rows of 31 days
/// takes one to two seconds on two cores, and other projects wait that long at most.
pub const REPORT_DAYS: usize = 31;
/// Characters of input and output in a run's row, for lists: about two lines of a table. Every run carries two previews
/// through every write and merge, so they are short.
pub const PREVIEW_CHARS: usize = 160;
