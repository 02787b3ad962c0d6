//! Connections compared with the limit on open files.

use anyhow::bail;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files other than client connections: segments of the log, connections to ClickHouse (32 by default) and to brokers,
/// the engine's pipes, the runtime's own. Measured at about 100 under load; the rest is for Kafka clusters.
const FILES_BESIDE: u64 = 512;
/// The minimum; fewer are of no use.
const CONNECTIONS_LEAST: u64 = 16;

/// Raises the soft limit on open files as far as permitted, and returns the number of connections that fit: at most
/// `max_connections`.
///
/// # Errors
/// Fewer than [`CONNECTIONS_LEAST`] fit.
pub(crate) fn fitting(max_connections: usize) -> anyhow::Result<usize> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let files = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => raised.current,
        Err(error) => {
            tracing::warn!(error.message = %error, "cannot raise the limit on open files");
            limit.current
        }
    };
    let Some(fitting) = within(files, max_connections) else {
        bail!(
            "the limit on open files (`ulimit -n`) is {}, but at least {} are needed: raise it",
            files.unwrap_or_default(),
            FILES_BESIDE + CONNECTIONS_LEAST,
        );
    };
    if fitting < max_connections {
        tracing::warn!(
            server.max_connections = max_connections,
            http.max_connections = fitting,
            process.max_files = files,
            "the limit on open files leaves room for fewer connections than `server.max_connections`; raise it (`ulimit -n`, LimitNOFILE)"
        );
    }
    Ok(fitting)
}

/// `None` for fewer than [`CONNECTIONS_LEAST`]; without a limit on files, `max_connections`.
fn within(files: Option<u64>, max_connections: usize) -> Option<usize> {
    let Some(files) = files else {
        return Some(max_connections);
    };
    let room = files.saturating_sub(FILES_BESIDE);
    let is_enough = room >= CONNECTIONS_LEAST.min(max_connections as u64);
    is_enough.then(|| max_connections.min(usize::try_from(room).unwrap_or(usize::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_fit_into_the_files_there_may_be() {
        assert_eq!(within(None, 10_000), Some(10_000));
        assert_eq!(within(Some(20_000), 10_000), Some(10_000));
        assert_eq!(within(Some(1024), 10_000), Some(512));
        assert_eq!(within(Some(600), 10), Some(10));
        assert_eq!(within(Some(520), 10_000), None);
    }
}
