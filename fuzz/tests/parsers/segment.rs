//! Files of the embedded log after damage: changed bytes, lost ranges, a cut end.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use eventlog::{Disk, EmbeddedConfig, EmbeddedLog, Fetch, Log, Position, Record};
use fuzz::{Seeds, fuzz};
use prometheus::Registry;
use redb::StorageBackend;

const PARTITIONS: u32 = 2;
const RECORDS: u32 = 40;
/// Edits of one input: more leave nothing to read, and each walks over a file.
const EDITS_MAX: usize = 8;

/// Files in memory.
#[derive(Clone, Debug, Default)]
struct Files(Arc<Mutex<BTreeMap<String, Contents>>>);

type Contents = Arc<Mutex<Vec<u8>>>;

impl Files {
    fn copy(&self) -> Self {
        let files = self.0.lock().unwrap();
        let copy = |(name, bytes): (&String, &Contents)| {
            (
                name.clone(),
                Arc::new(Mutex::new(bytes.lock().unwrap().clone())),
            )
        };
        Self(Arc::new(Mutex::new(files.iter().map(copy).collect())))
    }
}

impl Disk for Files {
    fn open(&self, name: &str) -> io::Result<Box<dyn StorageBackend>> {
        let mut files = self.0.lock().unwrap();
        Ok(Box::new(File(
            files.entry(name.to_owned()).or_default().clone(),
        )))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.0.lock().unwrap().keys().cloned().collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = self.0.lock().unwrap();
        let file = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let removed = self.0.lock().unwrap().remove(name);
        removed.map(drop).ok_or(io::ErrorKind::NotFound.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct File(Contents);

impl StorageBackend for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let file = self.0.lock().unwrap();
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let end = start
            .checked_add(out.len())
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(file.get(start..end).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.lock().unwrap().resize(len as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let start = offset as usize;
        let mut file = self.0.lock().unwrap();
        let part = file.get_mut(start..start + data.len());
        part.ok_or(io::ErrorKind::UnexpectedEof)?
            .copy_from_slice(data);
        Ok(())
    }
}

fn config() -> EmbeddedConfig {
    EmbeddedConfig {
        partitions: PARTITIONS,
        ..EmbeddedConfig::new("not used")
    }
}

fn record(number: u32) -> Record {
    Record {
        key: Bytes::from(format!("acme/app-{}", number % 5)),
        headers: vec![("v".to_owned(), Bytes::from_static(b"1"))],
        payload: Bytes::from(format!("payload {number} ").repeat(20)),
    }
}

/// A closed log with records, and the position of each record.
async fn written() -> (Files, BTreeMap<Position, Record>) {
    let files = Files::default();
    let log = EmbeddedLog::open_on(config(), Arc::new(files.clone()), &Registry::new()).unwrap();
    let mut records = BTreeMap::new();
    for number in 0..RECORDS {
        let position = log.append(record(number)).await.unwrap();
        records.insert(position, record(number));
    }
    log.close().await;
    drop(log);
    (files, records)
}

/// Applies edits of six bytes each: file (a segment, or what groups have committed), kind, place, value.
fn damage(files: &Files, edits: &[u8]) {
    let files = files.0.lock().unwrap();
    let files: Vec<_> = files.values().collect();
    for edit in edits.chunks_exact(6).take(EDITS_MAX) {
        let mut file = files[usize::from(edit[0]) % files.len()].lock().unwrap();
        if file.is_empty() {
            continue;
        }
        let place = u32::from_le_bytes([edit[2], edit[3], edit[4], 0]) as usize;
        let at = place % file.len();
        match edit[1] % 4 {
            0 => file[at] ^= edit[5].max(1),
            1 => file.truncate(at),
            2 => {
                let end = (at + 1 + usize::from(edit[5]) * 16).min(file.len());
                file[at..end].fill(0);
            }
            // Most of a file is empty: the parts with content are hit as often.
            _ => {
                let used: Vec<usize> = (0..file.len()).filter(|at| file[*at] != 0).collect();
                if let Some(at) = used.get(place.checked_rem(used.len()).unwrap_or_default()) {
                    file[*at] ^= edit[5].max(1);
                }
            }
        }
    }
}

/// Each edit alone is a seed.
fn seeds() -> Seeds {
    let each = (0..8).map(|edit| [edit / 4, edit % 4, 7, 40, 0, 1]);
    Seeds::of_files("segment").with_all(each)
}

#[test]
fn segment() {
    let runtime = crate::ingest_tier::runtime();
    let (files, records) = runtime.block_on(written());
    let (files, records) = (&files, &records);
    let untouched = runtime.block_on(readable(files.copy()));
    assert_eq!(untouched.len(), RECORDS as usize);
    fuzz!(seeds(), 150, |edits: &[u8]| {
        let files = files.copy();
        damage(&files, edits);
        let read = runtime.block_on(readable(files));
        for (position, record) in read {
            assert_eq!(
                records.get(&position),
                Some(&record),
                "a record that was not appended there"
            );
        }
    });
}

/// Every record that a damaged log still returns, partition by partition up to the first error.
async fn readable(files: Files) -> Vec<(Position, Record)> {
    let mut read = Vec::new();
    let Ok(log) = EmbeddedLog::open_on(config(), Arc::new(files), &Registry::new()) else {
        return read;
    };
    for partition in 0..PARTITIONS {
        let mut next = Position {
            partition,
            offset: 0,
        };
        let bounds = log.bounds().await.unwrap();
        let end = bounds.iter().find(|bounds| bounds.partition == partition);
        let end = end.map_or(0, |bounds| bounds.end);
        let Ok(mut reader) = log.reader(vec![next]).await else {
            continue;
        };
        let fetch = Fetch {
            max_bytes: 4096,
            max_wait: Duration::from_millis(20),
        };
        while next.offset < end.min(u64::from(RECORDS)) {
            let Ok(records) = reader.next(fetch).await else {
                break;
            };
            if records.is_empty() {
                break;
            }
            for stored in records {
                assert!(stored.position >= next, "records go back");
                next = stored.position;
                next.offset += 1;
                read.push((stored.position, stored.record));
            }
        }
    }
    read
}
