//! How much the embedded log takes: appenders of one process, with or without a member reading right behind.
//!
//! `cargo run --release -p eventlog --example append_bench -- [seconds] [appenders] [record bytes] [consume|slow|none]`
//!
//! Prints what was appended and read, the CPU it cost (all threads, payload copies included), and the latency of the
//! appends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use eventlog::{Delivery, EmbeddedConfig, EmbeddedLog, Fetch, Log, LogError, Record};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arg = |index: usize, default: u64| -> u64 {
        let given = args.get(index).and_then(|arg| arg.parse().ok());
        given.unwrap_or(default)
    };
    let (seconds, appenders, bytes) = (arg(0, 5), arg(1, 16), arg(2, 100_000));
    let mode = args.get(3).map_or("consume", String::as_str).to_owned();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(run(
        Duration::from_secs(seconds),
        appenders,
        usize::try_from(bytes)?,
        &mode,
    ))
}

async fn run(
    duration: Duration,
    appenders: u64,
    bytes: usize,
    mode: &str,
) -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir_in(std::env::var("BENCH_DIR").unwrap_or(".".to_owned()))?;
    let registry = prometheus::Registry::new();
    // A folder that is there, as a killed run leaves it, shows what opening costs.
    let path = std::env::var("BENCH_FOLDER").map_or(folder.path().to_owned(), Into::into);
    let start = Instant::now();
    let log = EmbeddedLog::open(EmbeddedConfig::new(path), &registry)?;
    println!("opened in {} ms", start.elapsed().as_millis());
    let stop = Arc::new(AtomicBool::new(false));
    let read = Arc::new(AtomicU64::new(0));
    let consumer = (mode != "none").then(|| {
        let slow = mode == "slow";
        tokio::spawn(consume(log.clone(), Arc::clone(&read), slow))
    });

    let cpu = cpu_seconds();
    let written = written_bytes();
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
    let cpu = cpu_seconds() - cpu;
    latencies.sort_unstable();
    let count = latencies.len();
    let at = |share: f64| {
        let index = ((count as f64 * share) as usize).min(count.saturating_sub(1));
        latencies.get(index).map_or(0.0, |d| d.as_secs_f64() * 1e3)
    };
    println!(
        "{mode}: {appenders} appenders, {bytes} B: {:.0} appends/s, {:.0} MB/s, read {:.0}/s, \
         CPU {:.2} s = {:.3} ms/append, written {:.2}x, RSS {} MB",
        count as f64 / elapsed,
        (count * bytes) as f64 / elapsed / 1e6,
        read.load(Ordering::Relaxed) as f64 / elapsed,
        cpu,
        cpu * 1e3 / count as f64,
        (written_bytes() - written) as f64 / (count * bytes) as f64,
        resident_mb(),
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
    println!("  RSS when idle: {} MB", resident_mb());
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
            // A new buffer for each record, as a request has.
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

/// Reads right behind and commits four times a second; `slow` takes half as much as comes.
async fn consume(log: EmbeddedLog, read: Arc<AtomicU64>, slow: bool) {
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
            if slow {
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

/// User and system time of the process.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Fields after the name in brackets: utime is the 12th, stime the 13th; in ticks of 10 ms.
    let after = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<f64> = after
        .split_whitespace()
        .filter_map(|field| field.parse().ok())
        .collect();
    fields
        .get(10..12)
        .map_or(0.0, |ticks| ticks.iter().sum::<f64>() / 100.0)
}

fn written_bytes() -> u64 {
    number("/proc/self/io", "write_bytes:")
}

fn resident_mb() -> u64 {
    number("/proc/self/status", "VmRSS:") / 1024
}

fn number(file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
        .unwrap_or(0)
}
