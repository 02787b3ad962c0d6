//! One file of the embedded store crate, opened on demand, and repaired after a failure.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use redb::{Builder, Database, WriteTransaction};

use super::disk::{Disk, Metered};
use super::metrics::Metrics;
use crate::LogError;

/// Suffix of an unfinished file, which contains nothing that was acknowledged.
pub(crate) const UNFINISHED: &str = ".new";

/// Shared by all stores of one log.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) metrics: Metrics,
    pub(crate) cache_bytes: usize,
}

pub(crate) struct Store {
    name: String,
    around: Surroundings,
    /// An `fdatasync` of this file has failed, and the file was not rewritten since.
    sync_failed: Arc<AtomicBool>,
    handle: Mutex<Handle>,
}

#[derive(Default)]
struct Handle {
    open: Option<Arc<OpenFile>>,
    /// A failed handle that a reader may still hold: the file is not opened again beside it.
    failed: Weak<OpenFile>,
}

/// An open file. Closing it writes the allocator's state, and the store crate panics on some kinds of damage there: the
/// panic is caught here, and the file stays as its last complete commit left it.
struct OpenFile {
    name: String,
    database: Option<Database>,
}

impl OpenFile {
    fn with<T>(
        &self,
        work: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, redb::Error> {
        match &self.database {
            Some(database) => work(database),
            // Only a drop takes it out.
            None => Err(redb::Error::DatabaseAlreadyOpen),
        }
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        let database = self.database.take();
        if catch_unwind(AssertUnwindSafe(|| drop(database))).is_err() {
            tracing::error!(
                log.file = %self.name,
                "a damaged file could not be closed in order; restore the data folder from a backup"
            );
        }
    }
}

impl Store {
    /// A file that exists.
    pub(crate) fn existing(around: Surroundings, name: &str) -> Self {
        Store {
            name: name.to_owned(),
            around,
            sync_failed: Arc::default(),
            handle: Mutex::default(),
        }
    }

    /// Creates the file with initial contents. It has its name only once they are durable.
    pub(crate) fn create(
        around: Surroundings,
        name: &str,
        fill: impl FnOnce(&WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<Self, LogError> {
        let store = Self::existing(around, name);
        let temporary = format!("{name}{UNFINISHED}");
        let made = store.make(&temporary, fill);
        match made {
            Ok(database) => {
                store.lock().open = Some(store.opened(database));
                Ok(store)
            }
            Err(error) => {
                // It may not even exist; the next open of the log removes it.
                let _ = store.around.disk.remove(&temporary);
                Err(log_error(error))
            }
        }
    }

    fn make(
        &self,
        temporary: &str,
        fill: impl FnOnce(&WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<Database, redb::Error> {
        let disk = &self.around.disk;
        let _ = disk.remove(temporary);
        let database = self.open_file(temporary)?;
        let transaction = database.begin_write()?;
        fill(&transaction)?;
        transaction.commit()?;
        disk.rename(temporary, &self.name)?;
        disk.sync()?;
        Ok(database)
    }

    fn open_file(&self, name: &str) -> Result<Database, redb::Error> {
        let file = self.around.disk.open(name)?;
        let file = Metered::new(
            file,
            self.around.metrics.clone(),
            Arc::clone(&self.sync_failed),
        );
        let mut builder = Builder::new();
        builder.set_cache_size(self.around.cache_bytes);
        Ok(builder.create_with_backend(file)?)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Handle> {
        self.handle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `work` with the store, opened if needed. Blocks on the disk. The store crate panics on some kinds of
    /// damage: that becomes an error, and does not end the thread.
    pub(crate) fn with<T>(
        &self,
        work: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, redb::Error> {
        let done = catch_unwind(AssertUnwindSafe(|| self.open()?.with(work)));
        done.unwrap_or_else(|_| {
            self.give_up();
            let what = format!("the file {} cannot be made sense of", self.name);
            Err(redb::Error::Corrupted(what))
        })
    }

    fn opened(&self, database: Database) -> Arc<OpenFile> {
        Arc::new(OpenFile {
            name: self.name.clone(),
            database: Some(database),
        })
    }

    fn open(&self) -> Result<Arc<OpenFile>, redb::Error> {
        let mut handle = self.lock();
        if let Some(file) = &handle.open {
            return Ok(Arc::clone(file));
        }
        if handle.failed.strong_count() > 0 {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "being reopened").into());
        }
        if self.sync_failed.load(Ordering::Acquire) {
            self.write_anew()?;
        }
        if !self.around.disk.list()?.contains(&self.name) {
            return Err(io::Error::from(io::ErrorKind::NotFound).into());
        }
        let file = self.opened(self.open_file(&self.name)?);
        handle.open = Some(Arc::clone(&file));
        Ok(file)
    }

    /// Copies the file and replaces it with the copy. After a failed `fdatasync` the system may hold pages that it
    /// takes for written and that are not: a later sync of the same file would succeed without them. In a new file
    /// every page is written and synced again.
    fn write_anew(&self) -> Result<(), redb::Error> {
        const CHUNK: usize = 1 << 20;
        let disk = &self.around.disk;
        let temporary = format!("{}{UNFINISHED}", self.name);
        let _ = disk.remove(&temporary);
        let from = disk.open(&self.name)?;
        let to = disk.open(&temporary)?;
        let len = from.len()?;
        to.set_len(len)?;
        let mut buffer = vec![0; CHUNK];
        let mut at = 0;
        while at < len {
            // At most CHUNK.
            let size = (len - at).min(CHUNK as u64) as usize;
            from.read(at, &mut buffer[..size])?;
            if buffer[..size].iter().any(|byte| *byte != 0) {
                to.write(at, &buffer[..size])?;
            }
            at += size as u64;
        }
        to.sync_data()?;
        disk.rename(&temporary, &self.name)?;
        disk.sync()?;
        self.sync_failed.store(false, Ordering::Release);
        tracing::warn!(log.file = %self.name, "a file was rewritten after a failed sync");
        Ok(())
    }

    /// Drops the handle after an error: the store crate rejects everything on it from then on. The next use opens the
    /// file again, which restores it to its last complete commit.
    pub(crate) fn give_up(&self) {
        let mut handle = self.lock();
        if let Some(file) = handle.open.take() {
            handle.failed = Arc::downgrade(&file);
        }
    }

    /// Rewrites the file if a sync of it has failed, without waiting for a read: until then no other process may open
    /// it.
    pub(crate) fn heal(&self) {
        if !self.sync_failed.load(Ordering::Acquire) {
            return;
        }
        // A handle that is still open has either not noticed yet, or failed to close.
        self.give_up();
        if let Err(error) = self.with(|_| Ok(())) {
            tracing::warn!(log.file = %self.name, %error, "a file cannot be rewritten yet");
        }
    }

    /// Closes the file if it is not in use.
    pub(crate) fn close_if_idle(&self) {
        let mut handle = self.lock();
        if handle
            .open
            .as_ref()
            .is_some_and(|file| Arc::strong_count(file) == 1)
        {
            handle.open = None;
        }
    }

    pub(crate) fn remove(&self) -> io::Result<()> {
        self.around.disk.remove(&self.name)
    }
}

/// Converts an error of the store crate.
pub(crate) fn log_error(error: redb::Error) -> LogError {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    match error {
        redb::Error::Io(error) if matches!(error.kind(), StorageFull | QuotaExceeded) => {
            LogError::Full(format!("no space on the disk: {error}"))
        }
        redb::Error::Corrupted(what) => LogError::Damaged(what),
        error => LogError::Unavailable(error.to_string()),
    }
}
