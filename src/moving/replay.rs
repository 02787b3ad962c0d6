//! `spindle replay`: appends an export to the log and adds its small tables to another deployment.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::Bytes;
use clap::Args;
use eventlog::{EmbeddedLog, Log, LogError, Record};
use futures::stream::{self, StreamExt, TryStreamExt};
use prometheus::Registry;
use serde::{Deserialize, Serialize};
use store::Store;
use store::maintenance::relocation::SmallTable;

use super::file::{self, Contents, Entry, Exported, Frames};
use crate::config::Config;
use crate::serve::engine::EngineSlot;
use crate::serve::folder::DataFolder;
use crate::serve::{parts, runtime, topics};

/// Concurrent appends: enough to share each sync of a disk.
const APPENDS: usize = 256;
/// Pause before a failed append is retried.
const PAUSE: Duration = Duration::from_secs(1);
/// Attempts of one append: brokers may be away for minutes.
const TRIES: usize = 300;
/// Within this time every process reloads prices and keys.
const REFRESH: Duration = Duration::from_secs(6);
/// Interval of progress lines.
const TELL_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Args)]
pub(crate) struct ReplayArgs {
    /// File of `export-log`
    pub(crate) file: PathBuf,
    /// Only verify the file and print its contents
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Progress of a replay, in a file beside the export, so that a killed replay can continue.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    id: u64,
    /// The target of the replay.
    target: String,
    /// The offset of the next frame.
    at: u64,
    records: u64,
    events: u64,
}

pub(crate) fn replay(config: Config, args: &ReplayArgs) -> anyhow::Result<()> {
    let contents = file::check(&args.file)?;
    let made = chrono::DateTime::from_timestamp_millis(contents.made_at_ms).unwrap_or_default();
    println!(
        "made at {}: {} events in {} records, {} projects, keys, tokens and prices",
        made.format("%Y-%m-%d %H:%M:%S UTC"),
        contents.events,
        contents.records,
        contents.rows
    );
    if args.dry_run {
        return Ok(());
    }
    let needs_folder = config.kafka.is_none() || config.clickhouse.urls.is_empty();
    let folder = match needs_folder {
        true => Some(DataFolder::take(&config.server.data_dir)?),
        false => None,
    };
    let slot = EngineSlot::default();
    let metrics = store::metrics::Metrics::register(&Registry::new())?;
    let data_dir = folder.as_ref().map(DataFolder::path);
    let settings = parts::store_settings(&config, data_dir, &slot, metrics.clone())?;
    let store = Store::connect(settings, metrics)?;
    let outcome = runtime(config.server.workers)?.block_on(async {
        store.migrate().await?;
        let log: Arc<dyn Log> = match &config.kafka {
            Some(kafka) => topics::open(kafka.events(), &Registry::new())
                .await
                .context("cannot open the topic of events")?,
            None => Arc::new(
                EmbeddedLog::open(config.log.clone(), &Registry::new())
                    .context("cannot open the log")?,
            ),
        };
        let target = match &config.kafka {
            Some(kafka) => format!("{} {}", kafka.events().brokers, log.topic()),
            None => config.server.data_dir.display().to_string(),
        };
        let mut replay = Replay {
            place: Place::read(&args.file, &contents, target)?,
            place_file: place_file(&args.file),
            store,
            log,
            contents,
            told: Instant::now(),
            waits_for_room: config.kafka.is_some(),
        };
        let outcome = replay.run(&args.file).await;
        replay.log.close().await;
        outcome
    });
    slot.shutdown();
    outcome
}

fn place_file(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".position");
    PathBuf::from(name)
}

impl Place {
    fn read(file: &Path, contents: &Contents, target: String) -> anyhow::Result<Self> {
        let path = place_file(file);
        let begin = Self {
            id: contents.id,
            target,
            at: 0,
            records: 0,
            events: 0,
        };
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(begin),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        let place: Self = serde_json::from_slice(&text)
            .with_context(|| format!("{} is damaged or was edited", path.display()))?;
        if place.id != begin.id {
            // Progress of another export.
            return Ok(begin);
        }
        if place.target != begin.target {
            bail!(
                "{} says that this file goes to {}: remove it to replay into {}",
                path.display(),
                place.target,
                begin.target
            );
        }
        Ok(place)
    }

    /// Stores it: a reader, or a crash, finds the old file or the new one, complete.
    fn write(&self, path: &Path) -> anyhow::Result<()> {
        let part = path.with_extension("position-part");
        let write = || {
            let mut file = File::create(&part)?;
            file.write_all(&serde_json::to_vec(self)?)?;
            file.sync_all()?;
            std::fs::rename(&part, path)
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }
}

struct Replay {
    place: Place,
    place_file: PathBuf,
    store: Store,
    log: Arc<dyn Log>,
    contents: Contents,
    told: Instant,
    /// Whether another process consumes the log; an embedded log is locked by this process.
    waits_for_room: bool,
}

impl Replay {
    async fn run(&mut self, file: &Path) -> anyhow::Result<()> {
        let mut frames = Frames::open(file)?;
        if self.place.at > 0 {
            println!("going on after {} records", self.place.records);
            frames.seek(self.place.at)?;
        }
        while let Some(entries) = frames.next()? {
            let mut records = Vec::new();
            let mut new_rows = false;
            for entry in entries {
                match entry {
                    Entry::Rows { table, rows } => {
                        self.put_rows(&table, &rows).await?;
                        new_rows = true;
                    }
                    Entry::Record(record) => records.push(record),
                    Entry::Begin { .. } | Entry::End { .. } => {}
                }
            }
            if new_rows && self.waits_for_room {
                // Running processors must price the following events by the imported prices.
                tokio::time::sleep(REFRESH).await;
            }
            self.append(records).await?;
            // Only now: repeating events after a kill changes nothing, skipping them would lose them.
            self.place.at = frames.at();
            self.place.write(&self.place_file)?;
            if self.told.elapsed() > TELL_INTERVAL {
                self.told = Instant::now();
                eprintln!("{} of {} events", self.place.events, self.contents.events);
            }
        }
        println!(
            "{} events are in the log; the processor makes runs of them",
            self.place.events
        );
        Ok(())
    }

    async fn put_rows(&self, table: &str, rows: &[String]) -> anyhow::Result<()> {
        let table = SmallTable::named(table)
            .with_context(|| format!("the file has a table {table}, which is not known"))?;
        let now_ms = chrono::Utc::now().timestamp_millis();
        self.store.put_small_rows(table, rows, now_ms).await?;
        Ok(())
    }

    async fn append(&mut self, records: Vec<Exported>) -> anyhow::Result<()> {
        let count = records.len() as u64;
        let events: u64 = records.iter().map(|record| u64::from(record.events)).sum();
        let log = &self.log;
        stream::iter(records)
            .map(|record| append(&**log, record, self.waits_for_room))
            .buffered(APPENDS)
            .try_collect::<()>()
            .await?;
        self.place.records += count;
        self.place.events += events;
        Ok(())
    }
}

async fn append(log: &dyn Log, record: Exported, waits_for_room: bool) -> anyhow::Result<()> {
    let headers = record.headers.into_iter();
    let record = Record {
        key: Bytes::from(record.key),
        headers: headers
            .map(|(name, value)| (name, Bytes::from(value)))
            .collect(),
        payload: Bytes::from(record.payload),
    };
    let mut tries = 0;
    loop {
        match log.append(record.clone()).await {
            Ok(_) => return Ok(()),
            Err(LogError::Full(_)) if !waits_for_room => {
                bail!(
                    "the log is full: start the server, stop it when it has processed it, and repeat the command"
                );
            }
            Err(LogError::Unavailable(_) | LogError::Full(_)) if tries < TRIES => tries += 1,
            Err(error) => {
                return Err(error)
                    .context("the log does not take a record; repeat the command to go on");
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_of_one_file_and_one_target() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("export");
        let contents = |id| Contents {
            id,
            made_at_ms: 0,
            records: 9,
            events: 9,
            rows: 0,
        };
        let read = |id, target: &str| Place::read(&file, &contents(id), target.to_owned());
        let mut place = read(1, "here").unwrap();
        assert_eq!(place.at, 0);
        place.at = 77;
        place.write(&place_file(&file)).unwrap();
        assert_eq!(read(1, "here").unwrap(), place);
        assert!(read(1, "there").is_err());
        assert_eq!(read(2, "there").unwrap().at, 0);
    }

    #[test]
    fn a_position_has_the_bytes_that_lie_beside_exports() {
        let place = Place {
            id: 7,
            target: "spindle-data".to_owned(),
            at: 17,
            records: 3,
            events: 4,
        };
        let written = serde_json::to_vec(&place).unwrap();
        let golden = crate::golden::check("replay_position.json", &written);
        assert_eq!(serde_json::from_slice::<Place>(&golden).unwrap(), place);
    }
}
