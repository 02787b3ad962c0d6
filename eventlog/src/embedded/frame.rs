//! The encoding of a record: a row of a segment.
//!
//! `checksum u64 | version u8 | headers u16 | key u32 | (name u16, value u32)* | key | (name, value)* | payload`,
//! numbers little-endian. The checksum is the XXH3 of everything after it. The payload comes last and takes the rest,
//! so reading a record back slices one buffer and copies nothing but the names.

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

use crate::{LogError, Record};

const VERSION: u8 = 1;
const CHECKSUM: usize = 8;
const FIXED: usize = CHECKSUM + 1 + 2 + 4;
const PER_HEADER: usize = 2 + 4;

/// Bytes of the encoded record; fails when a part is too long for its length field.
pub(crate) fn frame_len(record: &Record) -> Result<usize, LogError> {
    let too_large = |bytes: usize, limit: usize| LogError::TooLarge { bytes, limit };
    if record.headers.len() > usize::from(u16::MAX) {
        return Err(too_large(record.headers.len(), usize::from(u16::MAX)));
    }
    let mut len = FIXED + record.key.len() + record.payload.len();
    for (name, value) in &record.headers {
        if name.len() > usize::from(u16::MAX) {
            return Err(too_large(name.len(), usize::from(u16::MAX)));
        }
        len += PER_HEADER + name.len() + value.len();
    }
    if u32::try_from(len).is_err() {
        return Err(too_large(len, u32::MAX as usize));
    }
    Ok(len)
}

/// Bytes of a frame in its file: the store keeps a large value in a block of a power of two of its page size.
pub(crate) fn disk_len(frame_len: usize) -> u64 {
    (frame_len as u64 + 64).next_power_of_two().max(4096)
}

/// Writes the frame into a buffer of exactly [`frame_len`] bytes.
pub(crate) fn write_frame(record: &Record, frame: &mut [u8]) {
    let mut at = CHECKSUM;
    let mut put = |part: &[u8]| {
        frame[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    };
    // `frame_len` has checked every length.
    put(&[VERSION]);
    put(&(record.headers.len() as u16).to_le_bytes());
    put(&(record.key.len() as u32).to_le_bytes());
    for (name, value) in &record.headers {
        put(&(name.len() as u16).to_le_bytes());
        put(&(value.len() as u32).to_le_bytes());
    }
    put(&record.key);
    for (name, value) in &record.headers {
        put(name.as_bytes());
        put(value);
    }
    put(&record.payload);
    let checksum = xxh3_64(&frame[CHECKSUM..]);
    frame[..CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
}

/// Decodes a frame; `None` if it is damaged.
pub(crate) fn read_frame(frame: &Bytes) -> Option<Record> {
    let (checksum, _) = frame.split_first_chunk::<CHECKSUM>()?;
    if xxh3_64(&frame[CHECKSUM..]) != u64::from_le_bytes(*checksum) {
        return None;
    }
    let mut reader = Reader {
        frame,
        at: CHECKSUM,
    };
    if reader.array::<1>()? != [VERSION] {
        return None;
    }
    let headers = usize::from(u16::from_le_bytes(reader.array()?));
    let key = u32::from_le_bytes(reader.array()?) as usize;
    let mut lengths = Vec::with_capacity(headers);
    for _ in 0..headers {
        let name = usize::from(u16::from_le_bytes(reader.array()?));
        let value = u32::from_le_bytes(reader.array()?) as usize;
        lengths.push((name, value));
    }
    let key = reader.take(key)?;
    let mut headers = Vec::with_capacity(lengths.len());
    for (name, value) in lengths {
        let name = String::from_utf8(reader.take(name)?.to_vec()).ok()?;
        headers.push((name, reader.take(value)?));
    }
    let payload = reader.take(frame.len() - reader.at)?;
    Some(Record {
        key,
        headers,
        payload,
    })
}

struct Reader<'a> {
    frame: &'a Bytes,
    at: usize,
}

impl Reader<'_> {
    fn take(&mut self, len: usize) -> Option<Bytes> {
        let end = self.at.checked_add(len)?;
        if end > self.frame.len() {
            return None;
        }
        let part = self.frame.slice(self.at..end);
        self.at = end;
        Some(part)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let part = self.frame.get(self.at..)?.first_chunk::<N>()?;
        self.at += N;
        Some(*part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn records() -> impl Strategy<Value = Record> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..200).prop_map(Bytes::from);
        let headers = proptest::collection::vec(("[a-z-]{0,12}", bytes()), 0..5);
        (bytes(), headers, bytes()).prop_map(|(key, headers, payload)| Record {
            key,
            headers,
            payload,
        })
    }

    fn framed(record: &Record) -> Vec<u8> {
        let mut frame = vec![0; frame_len(record).unwrap_or(0)];
        write_frame(record, &mut frame);
        frame
    }

    proptest! {
        #[test]
        fn a_record_comes_back_byte_for_byte(record in records()) {
            prop_assert_eq!(read_frame(&Bytes::from(framed(&record))), Some(record));
        }

        #[test]
        fn a_changed_byte_or_a_cut_is_noticed(record in records(), at in any::<prop::sample::Index>(), by in 1u8..) {
            let frame = framed(&record);
            let at = at.index(frame.len());
            let mut changed = frame.clone();
            changed[at] ^= by;
            prop_assert_eq!(read_frame(&Bytes::from(changed)), None);
            prop_assert_eq!(read_frame(&Bytes::copy_from_slice(&frame[..at])), None);
        }
    }

    #[test]
    fn a_frame_has_the_bytes_that_segments_hold() {
        let header =
            |name: &str, value: &'static [u8]| (name.to_owned(), Bytes::from_static(value));
        let record = Record {
            key: Bytes::from_static(b"acme/main"),
            headers: vec![header("v", b"1"), header("empty", b"")],
            payload: Bytes::from_static(b"{\"events\":[]}"),
        };
        let golden = crate::golden::check("log_frame.1.bin", &framed(&record));
        assert_eq!(read_frame(&Bytes::from(golden)), Some(record));
    }
}
