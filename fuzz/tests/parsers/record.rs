//! Log records as the processor reads them: headers and payload.

use bytes::Bytes;
use eventlog::{Position, Record, StoredRecord};
use fuzz::{Seeds, captured_bodies, fuzz};
use processor::step::decode;
use schemas::ids::{AppId, ProjectId};
use schemas::record::RecordHeader;
use schemas::reprice::Reprice;
use schemas::start::Start;

use crate::report::{NOW_MS, WORDS};

fn header() -> RecordHeader {
    RecordHeader {
        project: ProjectId::new("acme"),
        app: AppId::new("main"),
        received_at_ms: NOW_MS,
        events: 2,
    }
}

/// One header per line, `name=value`; an empty line; the payload.
fn lines(headers: &[(String, Vec<u8>)], payload: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    for (name, value) in headers {
        text.extend_from_slice(format!("{name}=").as_bytes());
        text.extend_from_slice(value);
        text.push(b'\n');
    }
    text.push(b'\n');
    text.extend_from_slice(payload);
    text
}

fn record(bytes: &[u8]) -> StoredRecord {
    let split = bytes.windows(2).position(|pair| pair == b"\n\n");
    let (head, payload) = match split {
        Some(at) => (&bytes[..at], &bytes[at + 2..]),
        None => (bytes, &[][..]),
    };
    let pairs = head.split(|byte| *byte == b'\n').map(|line| {
        let at = line
            .iter()
            .position(|byte| *byte == b'=')
            .unwrap_or(line.len());
        let value = line.get(at + 1..).unwrap_or_default();
        (
            String::from_utf8_lossy(&line[..at]).into_owned(),
            Bytes::copy_from_slice(value),
        )
    });
    StoredRecord {
        position: Position {
            partition: 0,
            offset: 0,
        },
        record: Record {
            key: Bytes::from_static(b"acme/main"),
            headers: pairs.collect(),
            payload: Bytes::copy_from_slice(payload),
        },
    }
}

fn seeds() -> Seeds {
    let start = Start {
        uuid: "u".to_owned(),
        instance_id: 7,
        tokens: "[]".to_owned(),
        ..Start::default()
    };
    let mut of_start = header().encode();
    of_start.push(("start".to_owned(), start.encode().unwrap()));
    let reprice = Reprice {
        runs: vec![("r1".to_owned(), NOW_MS)],
        slice: None,
        resolves_relations: true,
    };
    let reprice = reprice.encode(&header().project, &header().app, NOW_MS);
    let bodies = captured_bodies(&["/api/report", "/v1/runs/ingest"], false);
    Seeds::of_files("record")
        .with_all(bodies.iter().map(|body| lines(&header().encode(), body)))
        .with(lines(&of_start, &bodies[0]))
        .with(lines(&reprice.headers, &reprice.payload))
        .with_words(WORDS)
        .with_words(&[
            "v=1",
            "project=",
            "app=",
            "received_at_ms=",
            "events=",
            "kind=settle",
            "moved=",
            "start=",
        ])
}

#[test]
fn record_headers_and_payload() {
    fuzz!(seeds(), 1000, examine);
}

fn examine(bytes: &[u8]) {
    let record = record(bytes);
    if let Ok(Some(start)) = decode::start(&record) {
        let value = start.encode().unwrap();
        let again = Start::decode([("start", value.as_slice())].into_iter());
        assert_eq!(again, Ok(Some(start)));
    }
    if decode::is_reprice(&record)
        && let Ok(reprice) = Reprice::decode(&record.record.payload)
    {
        let again = reprice.encode(&header().project, &header().app, NOW_MS);
        assert_eq!(Reprice::decode(&again.payload).unwrap(), reprice);
    }
    let Ok(header) = decode::header(&record) else {
        return;
    };
    let encoded = header.encode();
    let pairs = encoded
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_slice()));
    assert_eq!(RecordHeader::decode(pairs), Ok(header.clone()));
    let (mut good, mut bad) = (Vec::new(), 0);
    let read = decode::events(
        &record,
        &header,
        |event| good.push((event.id, event.raw)),
        |_, _| bad += 1,
    );
    if read.is_err() {
        return;
    }
    let again: Vec<_> = {
        let mut again = Vec::new();
        let each = |event: decode::DecodedEvent<'_>| again.push(event.id);
        decode::events(&record, &header, each, |_, _| {}).unwrap();
        again
    };
    let ids: Vec<_> = good.iter().map(|(id, _)| *id).collect();
    assert_eq!(again, ids, "an identity depends on the event alone");
    let raw_bytes: usize = good.iter().map(|(_, raw)| raw.len()).sum();
    assert!(raw_bytes <= record.record.payload.len());
}
