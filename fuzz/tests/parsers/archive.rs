//! Files of `spindle export-log`, as `spindle replay` reads them.

use fuzz::{Seeds, fuzz};
use tempfile::TempDir;

use crate::archive_file::{Contents, Entry, Exported, Frames, Writer, check};

fn entries() -> Vec<Entry> {
    let record = |n: u32| {
        Entry::Record(Exported {
            key: format!("default/app-{n}").into_bytes(),
            headers: vec![("v".to_owned(), b"1".to_vec())],
            payload: vec![b'x'; 200],
            events: n,
        })
    };
    let rows = Entry::Rows {
        table: "projects".to_owned(),
        rows: vec!["{\"a\":1}".to_owned()],
    };
    std::iter::once(rows).chain((1..5).map(record)).collect()
}

fn written(folder: &TempDir, entries: Vec<Entry>) -> Vec<u8> {
    let path = folder.path().join("written");
    let mut writer = Writer::create(&path, 7).unwrap();
    for entry in entries {
        writer.push(entry).unwrap();
    }
    writer.finish().unwrap();
    std::fs::read(&path).unwrap()
}

/// Contents and entries of an intact file.
fn read(folder: &TempDir, bytes: &[u8]) -> Option<(Contents, Vec<Entry>)> {
    let path = folder.path().join("read");
    std::fs::write(&path, bytes).unwrap();
    let contents = check(&path).ok()?;
    let mut frames = Frames::open(&path).unwrap();
    let mut entries = Vec::new();
    while let Some(more) = frames.next().expect("a file that was checked") {
        entries.extend(more);
    }
    entries.retain(|entry| matches!(entry, Entry::Rows { .. } | Entry::Record(_)));
    Some((contents, entries))
}

fn framed(plain: &[u8]) -> Vec<u8> {
    let frame = zstd::bulk::compress(plain, 1).unwrap();
    let length = u32::try_from(frame.len()).unwrap();
    [&length.to_le_bytes()[..], &frame].concat()
}

const MAGIC: &[u8] = b"spindle export 1\n";

#[test]
fn archive() {
    let folder = tempfile::tempdir().unwrap();
    let seeds = Seeds::of_files("archive").with(written(&folder, entries()));
    fuzz!(seeds, 500, |bytes: &[u8]| written_again_it_is_the_same(
        &folder, bytes
    ));
}

/// The entries inside of intact frames.
#[test]
fn archive_entries() {
    let folder = tempfile::tempdir().unwrap();
    let begin = Entry::Begin {
        id: 1,
        made_at_ms: 2,
    };
    let end = Entry::End {
        records: 4,
        events: 10,
    };
    let all: Vec<Entry> = std::iter::once(begin)
        .chain(entries())
        .chain([end])
        .collect();
    let seeds = Seeds::of_files("archive_entries").with(postcard::to_allocvec(&all).unwrap());
    fuzz!(seeds, 1000, |plain: &[u8]| {
        let file = [MAGIC, &framed(plain)].concat();
        written_again_it_is_the_same(&folder, &file);
    });
}

fn written_again_it_is_the_same(folder: &TempDir, bytes: &[u8]) {
    let Some((contents, entries)) = read(folder, bytes) else {
        return;
    };
    let records = entries
        .iter()
        .filter(|entry| matches!(entry, Entry::Record(_)));
    assert_eq!(contents.records, records.count() as u64);
    let again = written(folder, entries);
    let (same, _) = read(folder, &again).expect("what was written is whole");
    assert_eq!(
        (same.records, same.events, same.rows),
        (contents.records, contents.events, contents.rows)
    );
}

/// A file that was cut off, or of which one byte differs, is rejected.
#[test]
fn archive_damage() {
    let folder = tempfile::tempdir().unwrap();
    let whole = written(&folder, entries());
    let seeds = Seeds::default().with([0; 5]).with([1, 1, 1, 1, 1]);
    fuzz!(seeds, 1000, |damage: &[u8]| {
        let [a, b, c, d, by, ..] = *damage else {
            return;
        };
        let at = u32::from_le_bytes([a, b, c, d]) as usize % whole.len();
        assert!(read(&folder, &whole[..at]).is_none(), "cut at {at}");
        if by != 0 {
            let mut bytes = whole.clone();
            bytes[at] ^= by;
            assert!(read(&folder, &bytes).is_none(), "byte {at} changed by {by}");
        }
    });
}
