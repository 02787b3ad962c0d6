//! A disk in memory whose power can be cut, that fills up, and whose syncs fail.
//!
//! Unsynced writes survive a cut in part: any pages of them, none, or all. A failed sync loses what it should have
//! written and still shows it, like a page cache: a later sync of the same file succeeds without it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex};

use eventlog::Disk;
use rand::Rng;
use rand::rngs::StdRng;
use redb::StorageBackend;

const PAGE: usize = 4096;

/// Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimulatedDisk(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    files: Vec<File>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    failing_syncs: u32,
    failing_writes: Option<io::ErrorKind>,
    max_pages: Option<usize>,
    syncs: u64,
}

#[derive(Clone, Debug, Default)]
struct File {
    shown: Vec<u8>,
    durable: Vec<u8>,
    /// Pages of `shown` that the next sync writes.
    dirty: BTreeSet<usize>,
    /// Pages that were ever written.
    used: BTreeSet<usize>,
}

impl SimulatedDisk {
    /// The next syncs fail, and lose what they should have made durable.
    pub(crate) fn fail_syncs(&self, count: u32) {
        self.0.lock().unwrap().failing_syncs = count;
    }

    /// Every write and open fails like this, or none.
    pub(crate) fn fail_writes(&self, kind: Option<io::ErrorKind>) {
        self.0.lock().unwrap().failing_writes = kind;
    }

    /// Bounds the number of further pages, or removes the bound.
    pub(crate) fn set_free_pages(&self, free: Option<usize>) {
        let mut inner = self.0.lock().unwrap();
        let used = inner.used_pages();
        inner.max_pages = free.map(|free| used + free);
    }

    pub(crate) fn file_names(&self) -> Vec<String> {
        self.0.lock().unwrap().names.keys().cloned().collect()
    }

    pub(crate) fn syncs(&self) -> u64 {
        self.0.lock().unwrap().syncs
    }

    /// What a machine finds at its start after its power was cut at this moment.
    pub(crate) fn after_power_cut(&self, rng: &mut StdRng) -> SimulatedDisk {
        let inner = self.0.lock().unwrap();
        let names = if rng.random_bool(0.5) {
            &inner.names
        } else {
            &inner.durable_names
        };
        let mut after = Inner {
            files: inner.files.clone(),
            names: names.clone(),
            ..Inner::default()
        };
        let share = [0.0, 0.1, 0.5, 0.9, 1.0][rng.random_range(0..5)];
        for file in &mut after.files {
            let longest = file.shown.len();
            if longest > file.durable.len() && rng.random_bool(0.5) {
                file.durable.resize(longest, 0);
            }
            for page in std::mem::take(&mut file.dirty) {
                if rng.random_bool(share) {
                    file.write_back(page);
                }
            }
            file.shown = file.durable.clone();
        }
        after.durable_names = after.names.clone();
        SimulatedDisk(Arc::new(Mutex::new(after)))
    }

    /// What a process finds at its start after it was killed at this moment.
    pub(crate) fn after_kill(&self) -> SimulatedDisk {
        let inner = self.0.lock().unwrap();
        let after = Inner {
            files: inner.files.clone(),
            names: inner.names.clone(),
            durable_names: inner.durable_names.clone(),
            ..Inner::default()
        };
        SimulatedDisk(Arc::new(Mutex::new(after)))
    }
}

impl Inner {
    fn used_pages(&self) -> usize {
        let linked: BTreeSet<usize> = self.names.values().copied().collect();
        linked.iter().map(|id| self.files[*id].used.len()).sum()
    }

    fn check(&self) -> io::Result<()> {
        match self.failing_writes {
            Some(kind) => Err(kind.into()),
            None => Ok(()),
        }
    }
}

impl File {
    fn write_back(&mut self, page: usize) {
        let start = page * PAGE;
        let end = (start + PAGE).min(self.shown.len());
        if start >= end {
            return;
        }
        if self.durable.len() < end {
            self.durable.resize(end, 0);
        }
        self.durable[start..end].copy_from_slice(&self.shown[start..end]);
    }
}

impl Disk for SimulatedDisk {
    fn open(&self, name: &str) -> io::Result<Box<dyn StorageBackend>> {
        let mut inner = self.0.lock().unwrap();
        inner.check()?;
        let id = match inner.names.get(name) {
            Some(id) => *id,
            None => {
                inner.files.push(File::default());
                let id = inner.files.len() - 1;
                inner.names.insert(name.to_owned(), id);
                id
            }
        };
        Ok(Box::new(OpenFile {
            disk: self.clone(),
            id,
        }))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.file_names())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut inner = self.0.lock().unwrap();
        inner.check()?;
        let id = inner.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        inner.names.insert(to.to_owned(), id);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut inner = self.0.lock().unwrap();
        inner.check()?;
        let removed = inner.names.remove(name);
        removed.map(drop).ok_or(io::ErrorKind::NotFound.into())
    }

    fn sync(&self) -> io::Result<()> {
        let mut inner = self.0.lock().unwrap();
        inner.check()?;
        inner.durable_names = inner.names.clone();
        Ok(())
    }
}

#[derive(Debug)]
struct OpenFile {
    disk: SimulatedDisk,
    id: usize,
}

impl StorageBackend for OpenFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.0.lock().unwrap().files[self.id].shown.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let inner = self.disk.0.lock().unwrap();
        let start = offset as usize;
        let part = inner.files[self.id].shown.get(start..start + out.len());
        out.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut inner = self.disk.0.lock().unwrap();
        inner.check()?;
        let file = &mut inner.files[self.id];
        file.shown.resize(len as usize, 0);
        file.durable.truncate(len as usize);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut inner = self.disk.0.lock().unwrap();
        inner.check()?;
        inner.syncs += 1;
        let fails = inner.failing_syncs > 0;
        inner.failing_syncs = inner.failing_syncs.saturating_sub(1);
        let file = &mut inner.files[self.id];
        let dirty = std::mem::take(&mut file.dirty);
        if fails {
            return Err(io::Error::other("the disk did not take it"));
        }
        let len = file.shown.len();
        file.durable.resize(len, 0);
        for page in dirty {
            file.write_back(page);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut inner = self.disk.0.lock().unwrap();
        inner.check()?;
        let start = offset as usize;
        let pages = start / PAGE..(start + data.len()).div_ceil(PAGE);
        if let Some(max) = inner.max_pages {
            let used = &inner.files[self.id].used;
            let fresh = pages.clone().filter(|page| !used.contains(page)).count();
            if inner.used_pages() + fresh > max {
                return Err(io::ErrorKind::StorageFull.into());
            }
        }
        let file = &mut inner.files[self.id];
        let part = file.shown.get_mut(start..start + data.len());
        part.ok_or(io::ErrorKind::UnexpectedEof)?
            .copy_from_slice(data);
        file.dirty.extend(pages.clone());
        file.used.extend(pages);
        Ok(())
    }
}
