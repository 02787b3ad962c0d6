//! Appends to the embedded log by tasks of one process, with or without a member that reads right behind.
//!
//! Prints what was appended and read, the CPU time (all threads, copies of payloads included), and the latency of the
//! appends.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::{Args, ValueEnum};
use eventlog::{Delivery, EmbeddedConfig, EmbeddedLog, Fetch, Log, LogError, Record};

use crate::engine::temporary_folder;
use crate::process;

#[derive(Args)]
pub(crate) struct AppendArgs {
    /// How long to append
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = humantime::parse_duration)]
    duration: Duration,
    /// Tasks that append, each one record at a time
    #[arg(long, value_name = "N", default_value_t = 16)]
    appenders: u64,
    /// Bytes of one record
    #[arg(long, value_name = "BYTES", default_value_t = 100_000)]
    record_bytes: usize,
    /// Who reads the log meanwhile
    #[arg(long, value_enum, default_value_t = Reader::Fast)]
    reader: Reader,
    /// Existing log folder to open, which shows what opening costs [default: a temporary one]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Where the temporary folder is made [default: the system's folder for temporary files]
    #[arg(long, value_name = "DIR")]
    temp_dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Reader {
    /// Reads right behind
    Fast,
    /// Reads half as much as is appended
    Slow,
    /// No reader
    None,
}

pub(crate) async fn run(args: AppendArgs) -> anyhow::Result<()> {
    let AppendArgs {
        duration,
        appenders,
        record_bytes: bytes,
        reader,
        ..
    } = args;
    let temporary = temporary_folder(args.temp_dir)?;
    let path = args.folder.unwrap_or_else(|| temporary.path().to_owned());
    let registry = prometheus::Registry::new();
    let start = Instant::now();
    let log = EmbeddedLog::open(EmbeddedConfig::new(path), &registry)?;
    println!("opened in {} ms", start.elapsed().as_millis());
    let stop = Arc::new(AtomicBool::new(false));
    let read = Arc::new(AtomicU64::new(0));
    let consumer = (reader != Reader::None)
        .then(|| tokio::spawn(consume(log.clone(), Arc::clone(&read), reader)));

    let pid = std::process::id();
    let cpu = process::cpu_seconds(pid);
    let written = process::written_bytes();
    let start = Instant::now();
    let mut tasks = Vec::new();
    for appender in 0..appenders {
        let (log, stop) = (log.clone(), Arc::clone(&stop));
        tasks.push(tokio::spawn(append(log, stop, appender, bytes)));
    }
    tokio::time::sleep(duration).await;
    stop.store(true, Ordering::Relaxed);
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await?);
    }
    let elapsed = start.elapsed().as_secs_f64();
    let cpu = process::cpu_seconds(pid) - cpu;
    latencies.sort_unstable();
    let count = latencies.len();
    let at = |share: f64| {
        let index = ((count as f64 * share) as usize).min(count.saturating_sub(1));
        latencies.get(index).map_or(0.0, |d| d.as_secs_f64() * 1e3)
    };
    println!(
        "reader {reader:?}: {appenders} appenders, {bytes} B: {:.0} appends/s, {:.0} MB/s, read {:.0}/s, \
         CPU {:.2} s = {:.3} ms/append, written {:.2}x, RSS {} MiB",
        count as f64 / elapsed,
        (count * bytes) as f64 / elapsed / 1e6,
        read.load(Ordering::Relaxed) as f64 / elapsed,
        cpu,
        cpu * 1e3 / count as f64,
        (process::written_bytes() - written) as f64 / (count * bytes) as f64,
        process::resident_mib(pid),
    );
    println!(
        "  latency ms: p50 {:.2}, p90 {:.2}, p99 {:.2}, max {:.2}",
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    );
    for family in registry.gather() {
        if let Some(metric) = family.get_metric().first()
            && family.name().ends_with("syncs_total")
        {
            println!("  syncs: {}", metric.get_counter().get_value());
        }
    }
    if let Some(consumer) = consumer {
        consumer.abort();
    }
    log.close().await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    println!("  RSS when idle: {} MiB", process::resident_mib(pid));
    Ok(())
}

async fn append(
    log: EmbeddedLog,
    stop: Arc<AtomicBool>,
    appender: u64,
    bytes: usize,
) -> Vec<Duration> {
    let template: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
    let key = Bytes::from(format!("project/app-{appender}"));
    let mut latencies = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let record = Record {
            key: key.clone(),
            headers: vec![("version".to_owned(), Bytes::from_static(b"1"))],
            // A new buffer for each record, as in a request.
            payload: Bytes::from(template.clone()),
        };
        let start = Instant::now();
        match log.append(record).await {
            Ok(_) => latencies.push(start.elapsed()),
            Err(LogError::Full(_)) => tokio::time::sleep(Duration::from_millis(10)).await,
            Err(error) => {
                eprintln!("append: {error}");
                break;
            }
        }
    }
    latencies
}

/// Reads and commits four times a second.
async fn consume(log: EmbeddedLog, read: Arc<AtomicU64>, reader: Reader) {
    let Ok(mut member) = log.join("bench").await else {
        return;
    };
    let fetch = Fetch {
        max_bytes: 8 << 20,
        max_wait: Duration::from_millis(100),
    };
    let mut committed = Instant::now();
    let mut next = std::collections::BTreeMap::new();
    let mut sum = 0u64;
    while let Ok(delivery) = member.next(fetch).await {
        if let Delivery::Records(records) = &delivery {
            for stored in records {
                next.insert(stored.position.partition, stored.position.offset + 1);
                // Touch the bytes, as a parser would, though less.
                let step = stored.record.payload.iter().step_by(4096);
                sum = sum.wrapping_add(step.map(|b| u64::from(*b)).sum());
            }
            read.fetch_add(records.len() as u64, Ordering::Relaxed);
            if reader == Reader::Slow {
                tokio::time::sleep(Duration::from_millis(80)).await;
            }
        }
        if committed.elapsed() > Duration::from_millis(250) {
            committed = Instant::now();
            for (partition, offset) in &next {
                if let Err(error) = member.commit(*partition, *offset).await {
                    eprintln!("commit: {error}");
                }
            }
        }
    }
    std::hint::black_box(sum);
}
