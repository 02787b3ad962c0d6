//! The file format: a line that identifies it, then frames, each with a length and a compressed list of entries.
//!
//! A frame has a checksum. The first entry identifies the export, the last one has the totals, so a truncated file is
//! detected.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

/// First line of a file.
const MAGIC: &[u8] = b"spindle export 1\n";
/// Bytes of entries in one frame: enough for compression, little enough for memory.
const FRAME_BYTES: usize = 4 << 20;
/// Upper bound on a frame, compressed or not: a record may be large, but a damaged length must not be believed (X1).
const FRAME_BYTES_MAX: usize = 256 << 20;
/// At this level, compressing takes less time than reading the events.
const LEVEL: i32 = 3;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Entry {
    /// First entry: identifies the export.
    Begin {
        id: u64,
        /// Time of the export, Unix milliseconds.
        made_at_ms: i64,
    },
    /// Rows of a small table, as JSON.
    Rows {
        table: String,
        rows: Vec<String>,
    },
    Record(Exported),
    /// Last entry: the totals.
    End {
        records: u64,
        events: u64,
    },
}

/// A record of the log, and its number of events.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Exported {
    pub(super) key: Vec<u8>,
    pub(super) headers: Vec<(String, Vec<u8>)>,
    pub(super) payload: Vec<u8>,
    pub(super) events: u32,
}

/// Writes a temporary file, and renames it when it is complete.
pub(super) struct Writer {
    file: BufWriter<File>,
    frame: Vec<Entry>,
    frame_bytes: usize,
    records: u64,
    events: u64,
}

impl Writer {
    /// Replaces an existing file.
    pub(super) fn create(path: &Path, made_at_ms: i64) -> anyhow::Result<Self> {
        // It contains clients' data and hashes of secrets: only for its creator. An existing file would keep its mode,
        // so it is removed first.
        let _ = std::fs::remove_file(path);
        let mut options = File::options();
        let file = options.write(true).create_new(true).mode(0o600).open(path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        let mut file = BufWriter::new(file);
        file.write_all(MAGIC)?;
        let mut writer = Self {
            file,
            frame: Vec::new(),
            frame_bytes: 0,
            records: 0,
            events: 0,
        };
        writer.push(Entry::Begin {
            id: rand::random(),
            made_at_ms,
        })?;
        Ok(writer)
    }

    pub(super) fn push(&mut self, entry: Entry) -> anyhow::Result<()> {
        self.frame_bytes += match &entry {
            Entry::Record(record) => {
                self.records += 1;
                self.events += u64::from(record.events);
                record.payload.len()
            }
            Entry::Rows { rows, .. } => rows.iter().map(String::len).sum(),
            Entry::Begin { .. } | Entry::End { .. } => 0,
        };
        self.frame.push(entry);
        if self.frame_bytes >= FRAME_BYTES {
            self.write_frame()?;
        }
        Ok(())
    }

    fn write_frame(&mut self) -> anyhow::Result<()> {
        let plain = postcard::to_allocvec(&self.frame).context("cannot encode a frame")?;
        let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
        compressor.include_checksum(true)?;
        let frame = compressor.compress(&plain)?;
        let length = u32::try_from(frame.len()).context("a frame is too large")?;
        self.file.write_all(&length.to_le_bytes())?;
        self.file.write_all(&frame)?;
        self.frame.clear();
        self.frame_bytes = 0;
        Ok(())
    }

    pub(super) fn events(&self) -> u64 {
        self.events
    }

    /// Completes the file; it is on disk when this returns. Returns the numbers of records and events.
    pub(super) fn finish(mut self) -> anyhow::Result<(u64, u64)> {
        let (records, events) = (self.records, self.events);
        self.push(Entry::End { records, events })?;
        self.write_frame()?;
        let file = self
            .file
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        Ok((records, events))
    }
}

pub(super) struct Frames {
    file: BufReader<File>,
    at: u64,
}

impl Frames {
    /// Opens a file at its first frame.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let file = File::open(path).with_context(|| format!("cannot read {shown}"))?;
        let mut file = BufReader::new(file);
        let mut magic = vec![0; MAGIC.len()];
        let read = file.read_exact(&mut magic);
        if read.is_err() || magic != MAGIC {
            bail!("{shown} is not an export that this version can read");
        }
        Ok(Self {
            file,
            at: MAGIC.len() as u64,
        })
    }

    /// Continues at a result of [`Frames::at`].
    pub(super) fn seek(&mut self, at: u64) -> anyhow::Result<()> {
        self.file.seek(SeekFrom::Start(at))?;
        self.at = at;
        Ok(())
    }

    /// The offset of the next frame.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// The entries of the next frame; `None` at the end of the file.
    pub(super) fn next(&mut self) -> anyhow::Result<Option<Vec<Entry>>> {
        let mut length = [0; 4];
        match self.file.read_exact(&mut length) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let length = u32::from_le_bytes(length) as usize;
        if length > FRAME_BYTES_MAX {
            bail!("the file is damaged at byte {}", self.at);
        }
        let mut frame = vec![0; length];
        let damaged = || format!("the file is damaged or truncated at byte {}", self.at);
        self.file.read_exact(&mut frame).with_context(damaged)?;
        let plain = zstd::bulk::decompress(&frame, FRAME_BYTES_MAX).with_context(damaged)?;
        let entries = postcard::from_bytes(&plain).with_context(damaged)?;
        self.at += 4 + length as u64;
        Ok(Some(entries))
    }
}

/// Contents of a complete file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contents {
    pub(super) id: u64,
    pub(super) made_at_ms: i64,
    pub(super) records: u64,
    pub(super) events: u64,
    pub(super) rows: u64,
}

/// Reads the whole file once and validates it.
pub(super) fn check(path: &Path) -> anyhow::Result<Contents> {
    let mut frames = Frames::open(path)?;
    let (mut begin, mut end) = (None, None);
    let (mut records, mut events, mut rows_read) = (0, 0, 0);
    while let Some(entries) = frames.next()? {
        for entry in entries {
            match entry {
                Entry::Begin { id, made_at_ms } => begin = Some((id, made_at_ms)),
                Entry::Rows { rows, .. } => rows_read += rows.len() as u64,
                Entry::Record(record) => {
                    records += 1;
                    events += u64::from(record.events);
                }
                Entry::End { records, events } => end = Some((records, events)),
            }
        }
    }
    let (Some((id, made_at_ms)), Some(told)) = (begin, end) else {
        bail!("{} is truncated: export again", path.display());
    };
    if told != (records, events) {
        bail!("{} does not hold what it says it does", path.display());
    }
    Ok(Contents {
        id,
        made_at_ms,
        records,
        events,
        rows: rows_read,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(n: u32) -> Exported {
        Exported {
            key: format!("default/app-{n}").into_bytes(),
            headers: vec![("v".to_owned(), b"1".to_vec())],
            payload: vec![b'x'; 1 << 20],
            events: n,
        }
    }

    fn written(path: &Path) -> (u64, u64) {
        let mut writer = Writer::create(path, 7).unwrap();
        let rows = vec!["{}".to_owned()];
        let table = "projects".to_owned();
        writer.push(Entry::Rows { table, rows }).unwrap();
        for n in 0..10 {
            writer.push(Entry::Record(record(n))).unwrap();
        }
        writer.finish().unwrap()
    }

    #[test]
    fn what_was_written_is_read_from_any_frame_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("export");
        assert_eq!(written(&path), (10, 45));
        let contents = check(&path).unwrap();
        assert_eq!(
            (contents.records, contents.events, contents.rows),
            (10, 45, 1)
        );
        let mut frames = Frames::open(&path).unwrap();
        let mut places = Vec::new();
        let mut all = Vec::new();
        loop {
            places.push((frames.at(), all.len()));
            let Some(entries) = frames.next().unwrap() else {
                break;
            };
            all.extend(entries);
        }
        assert!(places.len() > 2, "several frames");
        for (at, before) in places {
            frames.seek(at).unwrap();
            let mut rest = Vec::new();
            while let Some(entries) = frames.next().unwrap() {
                rest.extend(entries);
            }
            assert_eq!(rest, all[before..]);
        }
    }

    #[test]
    fn a_file_that_was_cut_off_or_changed_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("export");
        written(&path);
        let whole = std::fs::read(&path).unwrap();
        for cut in [
            0,
            10,
            MAGIC.len(),
            MAGIC.len() + 2,
            whole.len() / 2,
            whole.len() - 1,
        ] {
            std::fs::write(&path, &whole[..cut]).unwrap();
            assert!(check(&path).is_err(), "cut at {cut}");
        }
        for at in [0, MAGIC.len() + 20, whole.len() - 3] {
            let mut changed = whole.clone();
            changed[at] ^= 0x20;
            std::fs::write(&path, &changed).unwrap();
            assert!(check(&path).is_err(), "changed at {at}");
        }
    }

    #[test]
    fn an_export_of_format_1_is_read_for_ever_and_its_frames_are_written_alike() {
        let entries = || {
            let rows = vec![r#"{"project_id":"acme"}"#.to_owned()];
            let table = "projects".to_owned();
            let record = Exported {
                key: b"acme/main".to_vec(),
                headers: vec![("v".to_owned(), b"1".to_vec())],
                payload: br#"{"events":[{"run_id":"a"}]}"#.to_vec(),
                events: 1,
            };
            let (id, made_at_ms) = (7, 1_795_185_741_941);
            let (records, events) = (1, 1);
            vec![
                Entry::Begin { id, made_at_ms },
                Entry::Rows { table, rows },
                Entry::Record(record),
                Entry::End { records, events },
            ]
        };
        // Another version of zstd may compress the file differently; it reads the old bytes.
        let plain = postcard::to_allocvec(&entries()).unwrap();
        crate::golden::check("export_entries.1.bin", &plain);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("export");
        std::fs::write(&path, crate::golden::bytes("export.1.bin")).unwrap();
        let read = Frames::open(&path).unwrap().next().unwrap().unwrap();
        assert_eq!(read, entries());
        assert_eq!(check(&path).unwrap().events, 1);
    }
}
