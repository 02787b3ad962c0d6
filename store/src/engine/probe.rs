//! Probes whether the engine answers queries on its port and ends reads that are past their limit, as its own user.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::USER;
use crate::client::config::Secret;

/// The response is a status line, a few headers and one digit.
const ANSWER_BYTES_MAX: usize = 4096;
/// ClickHouse's code of a wrong user or password: an engine with this answer serves none of our queries.
const AUTHENTICATION_FAILED: &str = "516";
/// ClickHouse's code of `throwIf`: FUNCTION_THROW_IF_VALUE_IS_NON_ZERO.
const THROWN: &str = "395";

/// When an engine that does not answer is restarted.
#[derive(Clone, Copy, Debug)]
pub struct Liveness {
    pub interval: Duration,
    /// Time-out of one probe. `SELECT 1` takes a millisecond; behind a merge or a burst of inserts on two busy cores it
    /// took less than a second.
    pub timeout: Duration,
    /// How long a read may exceed its time limit, which is checked between blocks. No client waits for it any more.
    pub overrun: Duration,
    /// Consecutive failed probes before a restart. More than one, so that a machine that was suspended, or a second in
    /// which nothing was scheduled, ends no engine.
    pub failures: u32,
}

impl Default for Liveness {
    /// A lost listener is noticed after 15 s, an engine that accepts connections and does not answer after 45 s, a read
    /// that does not end 25 s after its limit.
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(10),
            overrun: Duration::from_secs(10),
            failures: 3,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    /// The engine works, even if it rejected this query: too many at once, no memory.
    Alive,
    /// A read runs past its limit and cannot be canceled.
    Stuck,
    /// No response, or one that is not the engine's.
    Silent,
}

/// Connection and credentials of a probe.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    pub(super) port: u16,
    pub(super) password: Secret,
    pub(super) overrun: Duration,
}

impl Probe {
    /// Sends a query over a new connection. Blocks for at most `timeout`.
    pub(super) fn ask(&self, timeout: Duration) -> Health {
        let answer = self.exchange(Instant::now() + timeout);
        answer.map_or(Health::Silent, |answer| health(&answer))
    }

    /// Fails with [`THROWN`] while a read is past its limit.
    fn sql(&self) -> String {
        format!(
            "SELECT throwIf(countIf(query_kind = 'Select' AND (toFloat64OrZero(Settings['max_execution_time']) AS bound) > 0 \
             AND elapsed > bound + {}) > 0) FROM system.processes",
            self.overrun.as_secs_f64()
        )
    }

    fn exchange(&self, deadline: Instant) -> io::Result<Vec<u8>> {
        let left = || -> io::Result<Duration> {
            let left = deadline.saturating_duration_since(Instant::now());
            (!left.is_zero())
                .then_some(left)
                .ok_or(io::ErrorKind::TimedOut.into())
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let mut stream = TcpStream::connect_timeout(&address, left()?)?;
        stream.set_write_timeout(Some(left()?))?;
        let sql = self.sql();
        let request = format!(
            "POST / HTTP/1.1\r\nHost: engine\r\nX-ClickHouse-User: {USER}\r\nX-ClickHouse-Key: {}\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{sql}",
            self.password.reveal(),
            sql.len()
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        let mut chunk = [0; 1024];
        while answer.len() < ANSWER_BYTES_MAX {
            stream.set_read_timeout(Some(left()?))?;
            match stream.read(&mut chunk)? {
                0 => break,
                length => answer.extend_from_slice(&chunk[..length]),
            }
        }
        Ok(answer)
    }
}

fn health(answer: &[u8]) -> Health {
    let text = String::from_utf8_lossy(answer);
    let head = text.split("\r\n\r\n").next().unwrap_or_default();
    let code = head
        .lines()
        .find_map(|line| line.strip_prefix("X-ClickHouse-Exception-Code:"));
    match code.map(str::trim) {
        Some(AUTHENTICATION_FAILED) => Health::Silent,
        Some(THROWN) => Health::Stuck,
        Some(_) => Health::Alive,
        None if head.starts_with("HTTP/1.1 200 ") => Health::Alive,
        None => Health::Silent,
    }
}

/// Probes one child until it is dropped or the child fails too many probes.
pub(super) struct Watchdog {
    failed: Receiver<Health>,
    /// Dropping it ends the thread.
    _stop: Sender<()>,
}

impl Watchdog {
    pub(super) fn start(probe: Probe, liveness: Liveness) -> Self {
        let (report, failed) = channel();
        let (stop, stopped) = channel();
        let watch = move || {
            let mut failures = 0;
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(liveness.interval) {
                let health = probe.ask(liveness.timeout);
                match health {
                    Health::Alive => failures = 0,
                    Health::Silent | Health::Stuck => failures += 1,
                }
                if failures >= liveness.failures {
                    let _ = report.send(health);
                    return;
                }
            }
        };
        // Without this thread the engine is only watched by its process id.
        if let Err(error) = std::thread::Builder::new()
            .name("engine-probe".to_owned())
            .spawn(watch)
        {
            tracing::error!(%error, "cannot start the thread that probes the engine");
        }
        Self {
            failed,
            _stop: stop,
        }
    }

    /// The result of the last probe, once too many in a row failed.
    pub(super) fn failure(&self) -> Option<Health> {
        self.failed.try_recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overloaded_engine_is_alive_and_a_stranger_is_not() {
        let ready = b"HTTP/1.1 200 OK\r\nX-ClickHouse-Summary: {}\r\n\r\n1\n";
        let busy = b"HTTP/1.1 500 Internal Server Error\r\nX-ClickHouse-Exception-Code: 202\r\n\r\nCode: 202";
        let refused =
            b"HTTP/1.1 403 Forbidden\r\nX-ClickHouse-Exception-Code: 516\r\n\r\nCode: 516";
        let other = b"HTTP/1.1 404 Not Found\r\n\r\nThere is no handle /";
        assert_eq!(health(ready), Health::Alive);
        assert_eq!(health(busy), Health::Alive);
        let stuck = b"HTTP/1.1 500 Internal Server Error\r\nX-ClickHouse-Exception-Code: 395\r\n\r\nCode: 395";
        assert_eq!(health(stuck), Health::Stuck);
        assert_eq!(health(refused), Health::Silent);
        assert_eq!(health(other), Health::Silent);
        assert_eq!(health(b""), Health::Silent);
    }
}
