//! Metrics of the process itself: resident memory, CPU time, open files, start time.
//!
//! The engine is a child process with its own figures, given beside ours because a person sizing a machine needs
//! both. Read from `/proc` when scraped; elsewhere the values stay 0.

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Gauge, IntGauge, Opts};

use super::engine::EngineSlot;

/// Collects the figures at each scrape.
pub(crate) struct ProcessMetrics {
    resident: IntGauge,
    engine_resident: IntGauge,
    cpu: Gauge,
    open_files: IntGauge,
    start: Gauge,
    engine: EngineSlot,
}

impl ProcessMetrics {
    /// Makes the collector.
    pub(crate) fn new(engine: EngineSlot) -> prometheus::Result<Self> {
        let now = chrono::Utc::now().timestamp_millis() as f64 / 1000.0;
        let start = Gauge::with_opts(Opts::new(
            "process_start_time_seconds",
            "Start of the process, Unix time",
        ))?;
        start.set(now);
        Ok(Self {
            resident: IntGauge::with_opts(Opts::new(
                "process_resident_memory_bytes",
                "Resident memory of the server",
            ))?,
            engine_resident: IntGauge::with_opts(Opts::new(
                "spindle_process_engine_resident_memory_bytes",
                "Resident memory of the embedded engine; 0 without one",
            ))?,
            cpu: Gauge::with_opts(Opts::new(
                "process_cpu_seconds_total",
                "CPU time of the server, user and system",
            ))?,
            open_files: IntGauge::with_opts(Opts::new(
                "process_open_fds",
                "Open file descriptors of the server",
            ))?,
            start,
            engine,
        })
    }
}

impl Collector for ProcessMetrics {
    fn desc(&self) -> Vec<&Desc> {
        let mut desc = self.resident.desc();
        desc.extend(self.engine_resident.desc());
        desc.extend(self.cpu.desc());
        desc.extend(self.open_files.desc());
        desc.extend(self.start.desc());
        desc
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.resident
            .set(resident_bytes("self").unwrap_or_default());
        let engine = self
            .engine
            .process_id()
            .and_then(|pid| resident_bytes(&pid.to_string()));
        self.engine_resident.set(engine.unwrap_or_default());
        self.cpu.set(cpu_seconds().unwrap_or_default());
        let files = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        self.open_files
            .set(i64::try_from(files).unwrap_or(i64::MAX));
        let mut families = self.resident.collect();
        families.extend(self.engine_resident.collect());
        families.extend(self.cpu.collect());
        families.extend(self.open_files.collect());
        families.extend(self.start.collect());
        families
    }
}

/// `VmRSS` of a process, in bytes.
fn resident_bytes(process: &str) -> Option<i64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// User and system time; the kernel counts them in ticks of 10 ms on every Linux there is.
fn cpu_seconds() -> Option<f64> {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the name in parentheses and may hold blanks: count from behind it.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let user: f64 = fields.get(11)?.parse().ok()?;
    let system: f64 = fields.get(12)?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn resident_memory_and_cpu_time_are_read() {
        assert!(resident_bytes("self").unwrap() > 1 << 20);
        assert!(cpu_seconds().is_some());
    }
}
