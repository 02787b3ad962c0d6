//! The keys of a process in a file of its data folder, so that reports are accepted at once while ClickHouse is away.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use store::credentials::{Credentials, Snapshot};
use tokio_util::sync::CancellationToken;

use super::folder::write_whole;

/// Maximum age of a snapshot while ClickHouse answers and nothing changes.
const WRITE_INTERVAL: Duration = Duration::from_secs(60);
/// Pause before a failed write is retried.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// The file, and the age up to which it is used.
pub(crate) struct SnapshotFile {
    path: PathBuf,
    max_age: Duration,
}

impl SnapshotFile {
    /// `None` when no age is allowed.
    pub(crate) fn of(folder: &Path, max_age: Duration) -> Option<Self> {
        let path = folder.join("key-snapshot.json");
        (!max_age.is_zero()).then_some(Self { path, max_age })
    }

    /// Loads the file into the credentials; whether there was a valid one.
    pub(crate) fn restore(&self, credentials: &Credentials) -> bool {
        let restored = match self.read() {
            Ok(None) => return false,
            Ok(Some(snapshot)) => {
                let most = i64::try_from(self.max_age.as_millis()).unwrap_or(i64::MAX);
                let outcome = credentials.restore(&snapshot, now_ms(), most);
                outcome.map(|()| snapshot.keys()).map_err(Into::into)
            }
            Err(error) => Err(error),
        };
        match &restored {
            Ok(keys) => tracing::info!(
                credentials.keys = keys,
                "API keys were loaded from the snapshot"
            ),
            Err(error) => {
                tracing::warn!(
                    error.message = format!("{error:#}"),
                    "the snapshot of API keys is not used"
                );
            }
        }
        restored.is_ok()
    }

    /// Writes the file at every change, and every minute while ClickHouse confirms that there is none.
    pub(crate) async fn keep(&self, credentials: &Credentials, stop: CancellationToken) {
        let mut changes = credentials.known_changes();
        let mut wait = WRITE_INTERVAL;
        loop {
            let is_changed = tokio::select! {
                changed = changes.changed() => changed.is_ok(),
                () = tokio::time::sleep(wait) => false,
                () = stop.cancelled() => return,
            };
            // Without a confirmation just now there may have been a change.
            if !is_changed && credentials.refresh().await.is_err() {
                continue;
            }
            let written = self.write(&credentials.snapshot(now_ms())).await;
            wait = match &written {
                Ok(()) => WRITE_INTERVAL,
                Err(error) => {
                    tracing::warn!(
                        error.message = format!("{error:#}"),
                        "the snapshot of API keys was not written"
                    );
                    RETRY_PAUSE
                }
            };
        }
    }

    async fn write(&self, snapshot: &Snapshot) -> anyhow::Result<()> {
        let (path, text) = (self.path.clone(), serde_json::to_string(snapshot)?);
        tokio::task::spawn_blocking(move || write_whole(&path, &text, 0o600)).await?
    }

    fn read(&self) -> anyhow::Result<Option<Snapshot>> {
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                let path = self.path.display();
                return Err(error).with_context(|| format!("cannot read {path}"));
            }
        };
        // The parser's message would quote the file.
        let damaged = |_| anyhow::anyhow!("{} is damaged or was edited", self.path.display());
        serde_json::from_str(&text).map(Some).map_err(damaged)
    }
}

fn now_ms() -> i64 {
    chrono::Utc::now().timestamp_millis()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use prometheus::Registry;
    use store::{Store, StoreConfig};

    use super::*;

    fn credentials() -> Credentials {
        let metrics = store::metrics::Metrics::register(&Registry::new()).unwrap();
        Credentials::new(Store::connect(StoreConfig::default(), metrics).unwrap())
    }

    #[tokio::test]
    async fn a_snapshot_comes_back_until_it_is_old_and_only_the_owner_may_read_it() {
        let folder = tempfile::tempdir().unwrap();
        assert!(SnapshotFile::of(folder.path(), Duration::ZERO).is_none());
        let file = SnapshotFile::of(folder.path(), Duration::from_secs(60)).unwrap();
        assert!(!file.restore(&credentials()), "there is none yet");
        file.write(&credentials().snapshot(now_ms())).await.unwrap();
        assert!(file.restore(&credentials()));
        let mode = file.path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        file.write(&credentials().snapshot(now_ms() - 61_000))
            .await
            .unwrap();
        assert!(!file.restore(&credentials()), "old");
        std::fs::write(&file.path, "{").unwrap();
        assert!(!file.restore(&credentials()), "damaged");
    }
}
