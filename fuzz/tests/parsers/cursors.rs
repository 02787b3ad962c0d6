//! Positions of pages, as callers send them back.

use fuzz::{Seeds, fuzz};
use query::DeadLetterId;
use schemas::cursor::Cursor;
use schemas::filter::RunQuery;
use schemas::thread::{GroupedBy, ThreadPlace, ThreadQuery, WindowId};
use xxhash_rust::xxh3::xxh3_64;

fn question() -> RunQuery {
    RunQuery::from_pairs([("app_id", "a")]).unwrap()
}

fn runs() -> String {
    let question = question();
    Cursor {
        since_ms: 1,
        value: Some(-5),
        started_at_ms: i64::MAX,
        project_id: "p".to_owned(),
        app_id: "a".to_owned(),
        run_id: "é".to_owned(),
    }
    .encode(&question)
}

fn threads() -> String {
    let place = ThreadPlace {
        ended_at_ms: 7,
        grouped_by: GroupedBy::Window,
        key: 3,
    };
    ThreadQuery::from_pairs([("agent", "a")])
        .unwrap()
        .cursor_after(place)
}

fn seeds() -> Seeds {
    let window = WindowId {
        timestamp_ms: 5,
        event_id: 9,
    };
    Seeds::of_files("cursors")
        .with(runs())
        .with(threads())
        .with(window.encode())
        .with(query::fuzz::write_instance_cursor(
            5,
            "6f9619ff-8b86-d011-b42d-00cf4fc964ff",
            &["a", ""],
        ))
        .with(query::fuzz::write_scan_cursor(
            1_795_168_800_000,
            "6f9619ff-8b86-d011-b42d-00cf4fc964ff",
        ))
        .with("0-17")
}

#[test]
fn cursors() {
    fuzz!(seeds(), 4000, examine);
}

/// An accepted cursor is exactly one that a response gave: encoded again, it is the same text.
fn examine(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    match Cursor::decode(text, &question()) {
        Ok(cursor) => assert_eq!(cursor.encode(&question()), text),
        Err(fault) => assert_eq!((fault.status, fault.code.as_str()), (400, "invalid_cursor")),
    }
    if let Ok(query) = ThreadQuery::from_pairs([("agent", "a"), ("cursor", text)]) {
        match query.place() {
            Ok(place) => assert_eq!(query.cursor_after(place.unwrap()), text),
            Err(fault) => assert_eq!((fault.status, fault.code.as_str()), (400, "invalid_cursor")),
        }
    }
    if let Some(window) = WindowId::decode(text) {
        assert_eq!(window.encode(), text);
    }
    if let Ok(again) = query::fuzz::instance_cursor(text, &["a", ""]) {
        assert_eq!(again, text);
    }
    if let Ok(again) = query::fuzz::scan_cursor(text) {
        assert_eq!(again, text);
    }
    if let Ok(place) = text.parse::<DeadLetterId>() {
        assert_eq!(place.to_string().parse(), Ok(place));
    }
}

/// The checksum protects against damage, not against forgery: the bytes after it are parsed as carefully.
#[test]
fn cursors_with_a_right_check_sum() {
    let body = |text: &str, sum: usize| text_bytes(text)[sum..].to_vec();
    let seeds = Seeds::of_files("cursor_bodies")
        .with(body(&runs(), 4))
        .with(body(&threads(), 4));
    fuzz!(seeds, 4000, |body: &[u8]| {
        let sum = xxh3_64(body).to_le_bytes();
        examine(encoded(&[&sum[..4], body].concat()).as_bytes());
    });
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Base64 for addresses, without padding.
fn encoded(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let number = chunk
            .iter()
            .fold(0u32, |number, byte| number << 8 | u32::from(*byte));
        let number = number << (8 * (3 - chunk.len()));
        for place in 0..=chunk.len() {
            let digit = number >> (18 - 6 * place) & 63;
            text.push(char::from(ALPHABET[digit as usize]));
        }
    }
    text
}

fn text_bytes(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text
        .bytes()
        .map(|byte| ALPHABET.iter().position(|known| *known == byte).unwrap() as u32)
        .collect();
    let of_chunk = |chunk: &[u32]| {
        let number =
            chunk.iter().fold(0u32, |number, digit| number << 6 | digit) << (6 * (4 - chunk.len()));
        number.to_be_bytes()[1..chunk.len()].to_vec()
    };
    digits.chunks(4).flat_map(of_chunk).collect()
}
