//! Stored events that are appended to the log once more, to be processed again.

use bytes::Bytes;
use eventlog::{Record, StoredRecord};
use schemas::ids::{AppId, ProjectId};
use schemas::record::RecordHeader;
use schemas::reprice::Encoded;

use super::slices;

const HEADER: &str = "again";

/// The record of events of one app, each as it was accepted: they have the same identities as before (P2).
pub(crate) fn record(project: &str, app: &str, received_at_ms: i64, events: &[&[u8]]) -> Record {
    let header = RecordHeader {
        project: ProjectId::new(project),
        app: AppId::new(app),
        received_at_ms,
        events: u32::try_from(events.len()).unwrap_or(u32::MAX),
    };
    let mut record = slices::record(Encoded {
        key: header.key(),
        headers: header.encode(),
        payload: body(events),
    });
    let again = (HEADER.to_owned(), Bytes::from_static(b"1"));
    record.headers.push(again);
    record
}

/// The body of a report with these events.
pub(crate) fn body(events: &[&[u8]]) -> Vec<u8> {
    [b"{\"events\":[", &*events.join(&b','), b"]}"].concat()
}

/// Whether the events of the record are already counted as stored (P4).
pub fn is_again(record: &StoredRecord) -> bool {
    record.record.headers.iter().any(|(name, _)| name == HEADER)
}
