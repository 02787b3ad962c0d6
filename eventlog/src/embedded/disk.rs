//! The files under the log: a folder of the file system, or a test's replacement.

use std::fmt::Debug;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use redb::StorageBackend;
use redb::backends::FileBackend;

use super::metrics::Metrics;
use crate::LogError;

/// A flat folder of files. Names are plain file names.
pub trait Disk: Debug + Send + Sync + 'static {
    /// Opens a file for reading and writing; creates an empty one if it does not exist.
    fn open(&self, name: &str) -> io::Result<Box<dyn StorageBackend>>;

    fn list(&self) -> io::Result<Vec<String>>;

    /// Renames a file, replacing an existing one. Not durable before [`Disk::sync`].
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Not durable before [`Disk::sync`].
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes the directory entries durable.
    fn sync(&self) -> io::Result<()>;
}

/// Mode of the files: they contain reported data, so only the user of the process may read them.
const PRIVATE: u32 = 0o600;

/// A folder of the file system, locked for this process.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// Holds the lock until it is dropped.
    _lock: File,
}

impl Folder {
    /// Creates the folder if needed, and locks it.
    pub(crate) fn lock(path: &Path) -> Result<Self, LogError> {
        let failed = |what: &str, error: io::Error| {
            LogError::Unavailable(format!("{what} {}: {error}", path.display()))
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|error| failed("cannot make the folder", error))?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(PRIVATE)
            .open(path.join("lock"))
            .map_err(|error| failed("cannot write in the folder", error))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => LogError::Settings(format!(
                "another process uses the folder {}; two logs need two folders",
                path.display()
            )),
            TryLockError::Error(error) => failed("cannot lock the folder", error),
        })?;
        Ok(Folder {
            path: path.to_owned(),
            _lock: lock,
        })
    }
}

impl Disk for Folder {
    fn open(&self, name: &str) -> io::Result<Box<dyn StorageBackend>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(PRIVATE)
            .open(self.path.join(name))?;
        FileBackend::new(file)
            .map(|backend| Box::new(backend) as Box<dyn StorageBackend>)
            .map_err(io::Error::other)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

/// A file that counts its syncs, and remembers whether one failed: after that, the page cache may differ from the disk.
#[derive(Debug)]
pub(crate) struct Metered {
    inner: Box<dyn StorageBackend>,
    metrics: SyncMetrics,
    sync_failed: Arc<AtomicBool>,
}

struct SyncMetrics(Metrics);

impl Debug for SyncMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SyncMetrics")
    }
}

impl Metered {
    pub(crate) fn new(
        inner: Box<dyn StorageBackend>,
        metrics: Metrics,
        sync_failed: Arc<AtomicBool>,
    ) -> Self {
        Metered {
            inner,
            metrics: SyncMetrics(metrics),
            sync_failed,
        }
    }
}

impl StorageBackend for Metered {
    fn len(&self) -> Result<u64, io::Error> {
        self.inner.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.inner.read(offset, out)
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.inner.set_len(len)
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        let start = Instant::now();
        let result = self.inner.sync_data();
        self.metrics.0.syncs.inc();
        let seconds = start.elapsed().as_secs_f64();
        self.metrics.0.sync_seconds.observe(seconds);
        if result.is_err() {
            self.sync_failed.store(true, Ordering::Release);
        }
        result
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.inner.write(offset, data)
    }

    fn close(&self) -> Result<(), io::Error> {
        self.inner.close()
    }
}
