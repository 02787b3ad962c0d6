//! Starting on a full disk: the engine fails, and is started again until there is room.

use std::path::Path;
use std::time::Duration;

use super::Running;
use super::health::Part;

/// A disk with less than this is full: an engine writes its settings and the states of its tables at its start.
const ROOM_BYTES: u64 = 16 << 20;
/// Pause between two attempts, and the longest delay of a stop.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Retries `work` while the disk is full. Blocks.
pub(super) fn until_there_is_room<T>(
    running: &Running,
    data_dir: Option<&Path>,
    start: impl Fn() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mut told = false;
    loop {
        let error = match start() {
            Err(error) if data_dir.is_some_and(is_full) => error,
            done => return done,
        };
        if !told {
            tracing::warn!(
                error.message = format!("{error:#}"),
                "the engine cannot start on a full disk; retrying until there is space"
            );
            running.health.missing(Part::Engine, "the disk is full");
        }
        told = true;
        if running.stop.is_cancelled() {
            return Err(error);
        }
        std::thread::sleep(RETRY_PAUSE);
    }
}

/// Whether there is no room for the engine, whose folder may be on another disk.
fn is_full(data_dir: &Path) -> bool {
    [data_dir.to_owned(), data_dir.join("engine")]
        .iter()
        .filter_map(|folder| rustix::fs::statvfs(folder).ok())
        .any(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < ROOM_BYTES)
}
