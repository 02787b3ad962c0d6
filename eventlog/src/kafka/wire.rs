//! Records as messages of the client library, byte for byte.

use bytes::Bytes;
use rdkafka::Message;
use rdkafka::message::{BorrowedMessage, Header, Headers, OwnedHeaders};

use super::settings::RECORD_OVERHEAD;
use crate::{LogError, Position, Record, StoredRecord};

/// Bytes of a record as they count against the limits: its own, and what it adds on the wire.
pub(super) fn bytes(record: &Record) -> usize {
    let headers = record.headers.iter();
    let headers = headers.map(|(name, value)| name.len() + value.len() + RECORD_OVERHEAD / 4);
    record.key.len() + record.payload.len() + RECORD_OVERHEAD + headers.sum::<usize>()
}

pub(super) fn headers(record: &Record) -> Result<OwnedHeaders, LogError> {
    let mut headers = OwnedHeaders::new_with_capacity(record.headers.len());
    for (key, value) in &record.headers {
        if key.contains('\0') {
            return Err(LogError::Settings(
                "a header's name holds a zero byte".to_owned(),
            ));
        }
        headers = headers.insert(Header {
            key,
            value: Some(&value[..]),
        });
    }
    Ok(headers)
}

pub(super) fn stored(message: &BorrowedMessage<'_>) -> StoredRecord {
    let copied = |bytes: Option<&[u8]>| bytes.map_or_else(Bytes::new, Bytes::copy_from_slice);
    let headers = message.headers().map_or_else(Vec::new, |headers| {
        let named = headers.iter();
        named
            .map(|header| (header.key.to_owned(), copied(header.value)))
            .collect()
    });
    StoredRecord {
        position: Position {
            partition: partition(message.partition()),
            offset: offset(message.offset()),
        },
        record: Record {
            key: copied(message.key()),
            headers,
            payload: copied(message.payload()),
        },
    }
}

/// A partition of a message is never negative.
pub(super) fn partition(raw: i32) -> u32 {
    u32::try_from(raw).unwrap_or(0)
}

/// Partitions stay far below 2^31.
pub(super) fn raw_partition(partition: u32) -> i32 {
    i32::try_from(partition).unwrap_or(i32::MAX)
}

/// An offset of a message is never negative.
pub(super) fn offset(raw: i64) -> u64 {
    u64::try_from(raw).unwrap_or(0)
}

/// Offsets stay far below 2^63.
pub(super) fn raw_offset(offset: u64) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}
