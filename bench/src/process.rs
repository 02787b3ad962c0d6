//! CPU time and memory of processes, from `/proc` (Linux).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;

/// User and system time of a process, all its threads; 0 if it cannot be read.
pub(crate) fn cpu_seconds(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The second field is the name in parentheses and may contain spaces, so fields are counted from its end.
    let after_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 = after_name
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    // The kernel counts ticks of 10 ms.
    ticks as f64 / 100.0
}

/// CPU time of the calling thread; time of other processes does not count.
pub(crate) fn thread_cpu_seconds() -> f64 {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = schedstat
        .split(' ')
        .next()
        .and_then(|text| text.parse::<f64>().ok());
    nanoseconds.unwrap_or_default() / 1e9
}

/// Resident memory of a process, in units of 2^20 bytes.
pub(crate) fn resident_mib(pid: u32) -> u64 {
    field(&format!("/proc/{pid}/status"), "VmRSS:") / 1024
}

/// The most memory that some processes had together, read every tenth of a second until it is dropped.
pub(crate) struct PeakMemory {
    peak_mib: Arc<AtomicU64>,
    reader: JoinHandle<()>,
}

impl PeakMemory {
    pub(crate) fn watch(pids: impl IntoIterator<Item = Option<u32>>) -> Self {
        let pids: Vec<u32> = pids.into_iter().flatten().collect();
        let peak_mib = Arc::new(AtomicU64::new(0));
        let peak = Arc::clone(&peak_mib);
        let reader = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(Duration::from_millis(100));
            loop {
                ticks.tick().await;
                let resident = pids.iter().map(|pid| resident_mib(*pid)).sum();
                peak.fetch_max(resident, Ordering::Relaxed);
            }
        });
        Self { peak_mib, reader }
    }

    pub(crate) fn peak_mib(&self) -> u64 {
        self.peak_mib.load(Ordering::Relaxed)
    }
}

impl Drop for PeakMemory {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// High-water mark of this process's resident memory since [`reset_peak`], in units of 2^20 bytes.
pub(crate) fn peak_resident_mib() -> u64 {
    field("/proc/self/status", "VmHWM:") / 1024
}

/// Resets the high-water mark of [`peak_resident_mib`].
pub(crate) fn reset_peak() -> std::io::Result<()> {
    std::fs::write("/proc/self/clear_refs", "5")
}

/// Bytes that this process has written to disks.
pub(crate) fn written_bytes() -> u64 {
    field("/proc/self/io", "write_bytes:")
}

fn field(file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
        .unwrap_or(0)
}
