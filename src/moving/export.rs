//! `spindle export-log`: writes everything that a standalone deployment accepted into one file.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use eventlog::{EmbeddedLog, Fetch, Log, Position, StoredRecord};
use prometheus::Registry;
use schemas::ids::{AppId, ProjectId};
use schemas::record::RecordHeader;
use schemas::start;
use serde::Deserialize;
use serde_json::value::RawValue;
use store::Store;
use store::maintenance::rebuild::FoldEvent;
use store::maintenance::relocation::SmallTable;

use super::file::{Entry, Exported, Writer};
use crate::config::Config;
use crate::serve::engine::EngineSlot;
use crate::serve::folder::DataFolder;
use crate::serve::{parts, runtime, topics};

/// Events sorted by acceptance in one batch, and their bytes: a bound on memory (X1).
const BATCH_EVENTS: usize = 20_000;
const BATCH_BYTES: usize = 16 << 20;
/// Bytes of the events of one record: below the limit of any log.
const RECORD_BYTES: usize = 256 << 10;
const RECORD_EVENTS: usize = 500;
/// One read of records that are not stored yet.
const FETCH: Fetch = Fetch {
    max_bytes: 8 << 20,
    max_wait: Duration::from_millis(200),
};
/// Interval of progress lines.
const TELL_INTERVAL: Duration = Duration::from_secs(5);

/// Writes the file. The server must not be running, because the export locks its data folder.
pub(crate) fn export(config: Config, path: &Path) -> anyhow::Result<()> {
    if config.kafka.is_some() {
        bail!("export-log is for a standalone deployment: these settings name Kafka brokers");
    }
    let folder = DataFolder::take(&config.server.data_dir)?;
    let slot = EngineSlot::default();
    let metrics = store::metrics::Metrics::register(&Registry::new())?;
    let settings = parts::store_settings(&config, Some(folder.path()), &slot, metrics.clone())?;
    let store = Store::connect(settings, metrics)?;
    let outcome = runtime(config.server.workers)?.block_on(async {
        store.migrate().await?;
        write(&config, &store, path).await
    });
    slot.shutdown();
    let (records, events) = outcome?;
    println!(
        "{events} events in {records} records are in {}",
        path.display()
    );
    Ok(())
}

async fn write(config: &Config, store: &Store, path: &Path) -> anyhow::Result<(u64, u64)> {
    if store.retention().is_unfinished().await? {
        bail!(
            "a retention job was interrupted, and events that it still has to restore would be missing: start the server, let the job end, then export"
        );
    }
    warn_of_dead_letters(config).await?;
    let unfinished = unfinished(path);
    let mut export = Export {
        writer: Writer::create(&unfinished, chrono::Utc::now().timestamp_millis())?,
        batch: Vec::new(),
        batch_bytes: 0,
        told: Instant::now(),
    };
    for table in SmallTable::ALL {
        let rows = store.small_rows(table).await?;
        let table = table.name().to_owned();
        export.writer.push(Entry::Rows { table, rows })?;
    }
    let log =
        EmbeddedLog::open(config.log.clone(), &Registry::new()).context("cannot open the log")?;
    export.stored(store).await?;
    export.waiting(&log).await?;
    log.close().await;
    let counted = export.writer.finish()?;
    std::fs::rename(&unfinished, path)
        .with_context(|| format!("cannot put {} in place", path.display()))?;
    Ok(counted)
}

/// Dead letters are not exported: what could not be processed here need not be tried elsewhere. A warning names them,
/// because they are accepted events (P4).
async fn warn_of_dead_letters(config: &Config) -> anyhow::Result<()> {
    let letters = topics::dead_letters(&config.log);
    if !letters.folder.exists() {
        return Ok(());
    }
    let letters = EmbeddedLog::open(letters, &Registry::new());
    let letters = letters.context("cannot open the dead letters")?;
    let bounds = letters.bounds().await?;
    let count: u64 = bounds.iter().map(|bounds| bounds.end - bounds.begin).sum();
    if count > 0 {
        eprintln!(
            "{count} dead letters are not exported, including redriven ones: `spindle dead-letter list` of the running server lists them, `spindle dead-letter redrive` appends them to the log"
        );
    }
    letters.close().await;
    Ok(())
}

fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    PathBuf::from(name)
}

struct Export {
    writer: Writer,
    batch: Vec<FoldEvent>,
    batch_bytes: usize,
    told: Instant,
}

impl Export {
    /// Exports the stored events by day, project and app.
    async fn stored(&mut self, store: &Store) -> anyhow::Result<()> {
        let events = store.rebuild(None);
        for (day, _) in events.event_days().await? {
            let mut found = events.events_of_day(&day).await?;
            while let Some(event) = found.next().await? {
                self.take(event)?;
            }
        }
        self.put_batch()
    }

    /// Exports the records of the log that are not stored yet.
    async fn waiting(&mut self, log: &EmbeddedLog) -> anyhow::Result<()> {
        let lags = log.lag(processor::GROUP).await?;
        let behind: Vec<_> = lags
            .into_iter()
            .filter(|lag| lag.committed < lag.end)
            .collect();
        for lag in behind {
            let from = Position {
                partition: lag.partition,
                offset: lag.committed,
            };
            let mut reader = log.reader(vec![from]).await?;
            let mut next = lag.committed;
            while next < lag.end {
                let records = reader.next(FETCH).await?;
                // Offsets may have holes: an offset that does not arrive within the wait does not exist.
                let Some(last) = records.last() else {
                    break;
                };
                next = last.position.offset + 1;
                for record in records {
                    self.take_record(record)?;
                }
            }
        }
        self.put_batch()
    }

    /// Divides records of events like stored events; other records are exported unchanged.
    fn take_record(&mut self, stored: StoredRecord) -> anyhow::Result<()> {
        #[derive(Deserialize)]
        struct Body<'a> {
            #[serde(borrow)]
            events: Vec<&'a RawValue>,
        }
        let record = stored.record;
        let headers = record.headers.iter();
        let header = RecordHeader::decode(headers.map(|(name, value)| (name.as_str(), &value[..])));
        let body: Result<Body<'_>, _> = serde_json::from_slice(&record.payload);
        // The start of a process is more than its event.
        let is_start = record.headers.iter().any(|(name, _)| name == start::HEADER);
        if let (Ok(header), Ok(body), false) = (header, body, is_start) {
            for event in body.events {
                self.take(FoldEvent {
                    project_id: header.project.to_string(),
                    app_id: header.app.to_string(),
                    received_at: header.received_at_ms,
                    payload: event.get().as_bytes().to_vec(),
                })?;
            }
            return Ok(());
        }
        self.put_batch()?;
        let headers = record.headers.into_iter();
        self.writer.push(Entry::Record(Exported {
            key: record.key.to_vec(),
            headers: headers
                .map(|(name, value)| (name, value.to_vec()))
                .collect(),
            payload: record.payload.to_vec(),
            events: 0,
        }))
    }

    fn take(&mut self, event: FoldEvent) -> anyhow::Result<()> {
        let is_other = |last: &FoldEvent| {
            (&last.project_id, &last.app_id) != (&event.project_id, &event.app_id)
        };
        if self.batch.len() >= BATCH_EVENTS
            || self.batch_bytes >= BATCH_BYTES
            || self.batch.last().is_some_and(is_other)
        {
            self.put_batch()?;
        }
        self.batch_bytes += event.payload.len();
        self.batch.push(event);
        Ok(())
    }

    /// Writes the batch; a record holds events that were accepted at the same time.
    fn put_batch(&mut self) -> anyhow::Result<()> {
        let mut events = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        events.sort_by_key(|event| event.received_at);
        for record in records(events) {
            self.writer.push(Entry::Record(record))?;
        }
        if self.told.elapsed() > TELL_INTERVAL {
            self.told = Instant::now();
            eprintln!("{} events so far", self.writer.events());
        }
        Ok(())
    }
}

/// Records of one app's events, which are in the order of acceptance.
fn records(events: Vec<FoldEvent>) -> Vec<Exported> {
    let mut records = Vec::new();
    let mut rest = events.into_iter().peekable();
    while let Some(first) = rest.next() {
        let mut payload = b"{\"events\":[".to_vec();
        payload.extend_from_slice(&first.payload);
        let mut count: usize = 1;
        while let Some(event) = rest.next_if(|event| {
            event.received_at == first.received_at
                && count < RECORD_EVENTS
                && payload.len() + event.payload.len() < RECORD_BYTES
        }) {
            payload.push(b',');
            payload.extend_from_slice(&event.payload);
            count += 1;
        }
        payload.extend_from_slice(b"]}");
        let events = u32::try_from(count).unwrap_or(u32::MAX);
        let header = RecordHeader {
            project: ProjectId::new(first.project_id),
            app: AppId::new(first.app_id),
            received_at_ms: first.received_at,
            events,
        };
        records.push(Exported {
            key: header.key().into_bytes(),
            headers: header.encode(),
            payload,
            events,
        });
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(received_at: i64, bytes: usize) -> FoldEvent {
        FoldEvent {
            project_id: "default".to_owned(),
            app_id: "app".to_owned(),
            received_at,
            payload: format!("\"{}\"", "x".repeat(bytes)).into_bytes(),
        }
    }

    #[test]
    fn a_record_holds_events_of_one_moment_within_bounds() {
        let mut events = vec![event(1, 3), event(1, 3), event(2, 3)];
        events.extend((0..1200).map(|_| event(3, 3)));
        events.extend((0..3).map(|_| event(4, RECORD_BYTES / 2)));
        events.push(event(5, RECORD_BYTES * 2));
        let made = records(events);
        let counts: Vec<u32> = made.iter().map(|record| record.events).collect();
        assert_eq!(counts, [2, 1, 500, 500, 200, 1, 1, 1, 1]);
        assert_eq!(made[0].payload, br#"{"events":["xxx","xxx"]}"#);
        let header = RecordHeader::decode(
            made[0]
                .headers
                .iter()
                .map(|(name, value)| (name.as_str(), &value[..])),
        )
        .unwrap();
        assert_eq!((header.received_at_ms, header.events), (1, 2));
        assert_eq!(made[0].key, b"default/app");
    }
}
