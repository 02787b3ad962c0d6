//! Records as messages of the client library, byte for byte.

use bytes::Bytes;
use rdkafka::Message;
use rdkafka::message::{BorrowedMessage, Header, Headers, OwnedHeaders};

use super::settings::RECORD_OVERHEAD;
use crate::{LogError, Position, Record, StoredRecord};

/// Bytes of a record as they count against the limits: its own, and its overhead on the wire.
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

/// The partitions in a member's assignment of the classic group protocol; as many as can be read.
pub(super) fn assigned(mut bytes: &[u8]) -> impl Iterator<Item = (String, u32)> {
    let mut all = Vec::new();
    // The version: later ones add fields behind.
    let _ = take(&mut bytes, 2);
    let topics = number(&mut bytes);
    for _ in 0..topics.unwrap_or(0) {
        let length = take(&mut bytes, 2).map(|two| u16::from_be_bytes([two[0], two[1]]));
        let Some(topic) = length.and_then(|length| take(&mut bytes, length.into())) else {
            break;
        };
        let topic = String::from_utf8_lossy(topic).into_owned();
        for _ in 0..number(&mut bytes).unwrap_or(0) {
            let Some(partition) = number(&mut bytes) else {
                break;
            };
            all.push((topic.clone(), partition));
        }
    }
    all.into_iter()
}

fn number(bytes: &mut &[u8]) -> Option<u32> {
    let four = take(bytes, 4)?;
    Some(u32::from_be_bytes([four[0], four[1], four[2], four[3]]))
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, left) = bytes.split_at_checked(count)?;
    *bytes = left;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_is_read_and_half_of_one_does_no_harm() {
        let mut bytes = vec![0, 1, 0, 0, 0, 1, 0, 2, b'a', b'b', 0, 0, 0, 2];
        bytes.extend([0, 0, 0, 3, 0, 0, 0, 14, 255, 255, 255, 255]);
        let all: Vec<_> = assigned(&bytes).collect();
        assert_eq!(all, [("ab".to_owned(), 3), ("ab".to_owned(), 14)]);
        for length in 0..bytes.len() {
            assert!(assigned(&bytes[..length]).count() <= 2);
        }
        assert_eq!(assigned(&[255; 16]).count(), 0);
    }
}
