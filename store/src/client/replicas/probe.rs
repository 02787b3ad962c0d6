//! Probes failed replicas for their recovery, and the current one for whether it still answers.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Replicas;

/// Interval of probes.
const INTERVAL: Duration = Duration::from_secs(1);
/// Time-out of a probe.
const PATIENCE: Duration = Duration::from_secs(2);
/// Consecutive probes that the current replica may leave without an answer: it may be busy without being away.
const OWED_MAX: u32 = 3;

#[derive(Debug, Default)]
pub(super) struct Once(AtomicBool);

impl Once {
    /// Probes until the replicas are dropped. Call it in a runtime.
    pub(super) fn begin(&self, replicas: &Arc<Replicas>) {
        if !self.0.swap(true, Ordering::Relaxed) {
            tokio::spawn(ask(Arc::downgrade(replicas)));
        }
    }
}

async fn ask(replicas: Weak<Replicas>) {
    let mut owed = 0;
    loop {
        tokio::time::sleep(INTERVAL).await;
        let Some(replicas) = replicas.upgrade() else {
            return;
        };
        for (replica, address) in replicas.addresses.iter().enumerate() {
            if !replicas.choice().is_due(replica, Instant::now()) {
                continue;
            }
            let is_in_use = replica == replicas.in_use();
            let answer = tokio::time::timeout(PATIENCE, ping(&address.name())).await;
            if matches!(answer, Ok(Ok(true))) {
                replicas.answered(replica);
                owed = if is_in_use { 0 } else { owed };
                continue;
            }
            owed += u32::from(is_in_use);
            if !is_in_use || owed >= OWED_MAX {
                replicas.failed(replica, "it does not answer");
                owed = if is_in_use { 0 } else { owed };
            }
        }
    }
}

/// Whether `/ping` gets ClickHouse's response.
async fn ping(address: &str) -> io::Result<bool> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /ping HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(4096).read_to_end(&mut answer).await?;
    Ok(answer.windows(3).any(|window| window == b"Ok."))
}
