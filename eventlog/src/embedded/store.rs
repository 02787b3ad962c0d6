//! One file of the embedded store crate, opened when it is needed, and made whole again after a failure.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use redb::{Builder, Database, WriteTransaction};

use super::disk::{Disk, Metered};
use super::metrics::Metrics;
use crate::LogError;

/// Ending of a file that is being made: it holds nothing that was acknowledged.
pub(crate) const UNFINISHED: &str = ".new";

/// What all stores of one log share.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) metrics: Metrics,
    pub(crate) cache_bytes: usize,
}

/// A store file by name.
pub(crate) struct Store {
    name: String,
    around: Surroundings,
    /// An `fdatasync` of this file has failed, and the file was not written anew since.
    sync_failed: Arc<AtomicBool>,
    handle: Mutex<Handle>,
}

#[derive(Default)]
struct Handle {
    open: Option<Arc<Database>>,
    /// A handle that failed and may still be held by a reader: the file is not opened again beside it.
    failed: Weak<Database>,
}

impl Store {
    /// A file that is there.
    pub(crate) fn existing(around: Surroundings, name: &str) -> Self {
        Store {
            name: name.to_owned(),
            around,
            sync_failed: Arc::default(),
            handle: Mutex::default(),
        }
    }

    /// Makes the file with first contents. It has its name only once they are durable.
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
                store.lock().open = Some(Arc::new(database));
                Ok(store)
            }
            Err(error) => {
                // It may not even be there; the next open of the log removes it.
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

    /// Does something with the store, opened if need be. Blocks on the disk. The store crate panics on some kinds of
    /// damage: that, too, is an error here, and not the end of the thread.
    pub(crate) fn with<T>(
        &self,
        work: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, redb::Error> {
        let done = catch_unwind(AssertUnwindSafe(|| {
            let database = self.database()?;
            work(&database)
        }));
        done.unwrap_or_else(|_| {
            self.give_up();
            let what = format!("the file {} cannot be made sense of", self.name);
            Err(redb::Error::Corrupted(what))
        })
    }

    fn database(&self) -> Result<Arc<Database>, redb::Error> {
        let mut handle = self.lock();
        if let Some(database) = &handle.open {
            return Ok(Arc::clone(database));
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
        let database = Arc::new(self.open_file(&self.name)?);
        handle.open = Some(Arc::clone(&database));
        Ok(database)
    }

    /// Copies the file and puts the copy in its place. After a failed `fdatasync` the system may hold pages that it
    /// takes for written and that are not: a later sync of the same file would succeed over them. In a new file
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
        tracing::warn!(log.file = %self.name, "wrote a file anew after a failed sync");
        Ok(())
    }

    /// Gives the handle up after an error: the store crate refuses everything on it from then on. The next use
    /// opens the file again, which brings it back to its last complete commit.
    pub(crate) fn give_up(&self) {
        let mut handle = self.lock();
        if let Some(database) = handle.open.take() {
            handle.failed = Arc::downgrade(&database);
        }
    }

    /// Writes the file anew if a sync of it has failed, rather sooner than when somebody wants to read it: until
    /// then it must not be opened by another process.
    pub(crate) fn heal(&self) {
        if !self.sync_failed.load(Ordering::Acquire) {
            return;
        }
        // A handle that is still open has either not noticed yet, or is a close that failed.
        self.give_up();
        if let Err(error) = self.with(|_| Ok(())) {
            tracing::warn!(log.file = %self.name, %error, "cannot write a file anew yet");
        }
    }

    /// Closes the file if nobody uses it at the moment.
    pub(crate) fn close_if_idle(&self) {
        let mut handle = self.lock();
        if handle
            .open
            .as_ref()
            .is_some_and(|db| Arc::strong_count(db) == 1)
        {
            handle.open = None;
        }
    }

    /// Removes the file.
    pub(crate) fn remove(&self) -> io::Result<()> {
        self.around.disk.remove(&self.name)
    }
}

/// What an error of the store crate means to a caller of the log.
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
