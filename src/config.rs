//! The settings: one plain struct per part, read once, validated as a whole.
//!
//! `spindle.default.toml` is compiled in and contains the defaults, so the two cannot diverge.

pub(crate) mod auth;
pub(crate) mod kafka;
mod origins;
mod platform;
pub(crate) mod reader;
#[cfg(test)]
mod reference;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use bytesize::ByteSize;
use eventlog::EmbeddedConfig;
use ingest::{ClientCost, IngestConfig};
use processor::ProcessorConfig;
use query::IdentityConfig;
use query::platform::headers::Origins;
use store::{Compression, REPLICAS_MAX, Secret};

use crate::listener::HttpConfig;
use crate::listener::pace::PaceLimits;
use crate::logs::{self, Format, LogsConfig};
use kafka::KafkaSettings;
use reader::{Reader, Shown};

/// The commented default file.
pub(crate) const DEFAULT_FILE: &str = include_str!("../spindle.default.toml");
/// Used if it exists and no other file is named.
const USUAL_FILE: &str = "spindle.toml";

#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) server: ServerConfig,
    pub(crate) logs: LogsConfig,
    pub(crate) metrics: MetricsConfig,
    pub(crate) clickhouse: ClickHouseConfig,
    pub(crate) engine: EngineSettings,
    pub(crate) log: EmbeddedConfig,
    /// The log's topics; `None` for the embedded log.
    pub(crate) kafka: Option<KafkaSettings>,
    pub(crate) ingest: IngestConfig,
    /// Age up to which a snapshot of the API keys is used; zero for never.
    pub(crate) snapshot_max_age: Duration,
    pub(crate) processor: ProcessorConfig,
    /// Minute of the day, UTC, at which retention runs; `None` for never.
    pub(crate) retention_minute: Option<u32>,
    /// The trusted identity provider.
    pub(crate) identity: Option<IdentityConfig>,
    pub(crate) session_lifetime: Duration,
    /// Failed look-ups of credentials per client address and minute; 0 for no limit.
    pub(crate) failures_per_minute: u32,
    /// Origins whose pages may start processes.
    pub(crate) allowed_origins: Origins,
    pub(crate) scan: query::platform::scan::ScanConfig,
}

/// The ClickHouse in use. URL, user, password and database are ignored with the embedded engine.
#[derive(Clone, Debug)]
pub(crate) struct ClickHouseConfig {
    /// Replicas of a server; empty for the embedded engine.
    pub(crate) urls: Vec<String>,
    /// The cluster on which tables are created, if any.
    pub(crate) cluster: Option<String>,
    pub(crate) user: String,
    pub(crate) password: Secret,
    pub(crate) database: String,
    pub(crate) compression: Compression,
    pub(crate) send_timeout: Duration,
    pub(crate) insert_timeout: Duration,
    pub(crate) query_timeout: Duration,
    pub(crate) max_connections: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct EngineSettings {
    /// The engine's library; `None` for the usual paths.
    pub(crate) library: Option<PathBuf>,
    /// Memory limit; `None` for the store's default.
    pub(crate) memory_bytes: Option<u64>,
}

/// Access to `/metrics`.
#[derive(Clone, Debug)]
pub(crate) struct MetricsConfig {
    /// A separate listener.
    pub(crate) listen: Option<SocketAddr>,
    /// The token that readers need, and that shows the ids of projects; empty for none.
    pub(crate) token: Secret,
}

#[derive(Clone, Debug)]
pub(crate) struct ServerConfig {
    pub(crate) listen: SocketAddr,
    /// The URL for other processes, if it differs from `listen`.
    pub(crate) public_url: Option<String>,
    pub(crate) data_dir: PathBuf,
    /// Worker threads; 0 means one per core.
    pub(crate) workers: usize,
    pub(crate) http: HttpConfig,
}

impl Config {
    /// Reads every layer. `file` is the file that the user named, if any; `flags` are keys with their texts.
    pub(crate) fn load(
        file: Option<&Path>,
        flags: BTreeMap<String, String>,
    ) -> anyhow::Result<(Self, Vec<Shown>)> {
        let text = match file {
            Some(path) => std::fs::read_to_string(path)
                .with_context(|| format!("cannot read the settings file {}", path.display()))?,
            None if Path::new(USUAL_FILE).exists() => std::fs::read_to_string(USUAL_FILE)
                .with_context(|| format!("cannot read {USUAL_FILE}"))?,
            None => String::new(),
        };
        let mut reader = Reader::new(DEFAULT_FILE, &text, std::env::vars(), flags);
        let config = Self::read(&mut reader);
        let shown = reader.finish()?;
        Ok((config, shown))
    }

    fn read(from: &mut Reader) -> Self {
        let server = read_server(from);
        let log = read_log(from, &server.data_dir);
        let processor = read_processor(from);
        let identity = auth::read(from);
        let issuer = identity
            .as_ref()
            .map(|identity| identity.rules.issuer.as_str());
        Self {
            logs: read_logs(from),
            metrics: read_metrics(from),
            clickhouse: read_clickhouse(from),
            engine: read_engine(from),
            log,
            kafka: kafka::read(from, processor.workers),
            ingest: read_ingest(from),
            snapshot_max_age: from.duration("ingest.snapshot_max_age", ms(0)..=secs(366 * 86_400)),
            processor,
            retention_minute: read_retention(from),
            allowed_origins: origins::read(from),
            scan: platform::read(from, issuer),
            identity,
            session_lifetime: from.duration("auth.session_lifetime", secs(1)..=secs(30 * 86_400)),
            failures_per_minute: u32::try_from(
                from.number("auth.failures_per_minute", 0..=1_000_000),
            )
            .unwrap_or(u32::MAX),
            server,
        }
    }
}

fn read_server(from: &mut Reader) -> ServerConfig {
    let unusable = SocketAddr::from(([127, 0, 0, 1], 0));
    ServerConfig {
        listen: from.address("server.listen").unwrap_or(unusable),
        public_url: read_public_url(from),
        data_dir: PathBuf::from(from.text("server.data_dir")),
        workers: count(from, "server.workers", 0..=1024),
        http: read_http(from),
    }
}

fn read_http(from: &mut Reader) -> HttpConfig {
    let rate = ByteSize::b(1)..=ByteSize::mib(1);
    let bytes_per_second = from.size("server.min_bytes_per_second", rate);
    let bytes_per_second = u32::try_from(bytes_per_second).unwrap_or(u32::MAX);
    let pace = |from: &mut Reader, key: &str| PaceLimits {
        stall: from.duration(key, ms(100)..=secs(600)),
        bytes_per_second,
    };
    HttpConfig {
        max_connections: count(from, "server.max_connections", 1..=1_000_000),
        max_connections_per_address: count(
            from,
            "server.max_connections_per_address",
            1..=1_000_000,
        ),
        header_timeout: from.duration("server.header_timeout", ms(100)..=secs(600)),
        body: pace(from, "server.body_stall_timeout"),
        answer: pace(from, "server.answer_stall_timeout"),
        in_flight_bytes: from.size(
            "server.in_flight_bytes",
            ByteSize::kib(64)..=ByteSize::gib(64),
        ),
        drain_timeout: from.duration("server.drain_timeout", ms(0)..=secs(3600)),
    }
}

fn read_public_url(from: &mut Reader) -> Option<String> {
    let text = from.text("server.public_url");
    if text.is_empty() {
        return None;
    }
    let url = reqwest::Url::parse(&text).ok();
    let is_good = url.is_some_and(|url| {
        let has_secret = !url.username().is_empty() || url.password().is_some();
        matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && !has_secret
            && url.query().is_none()
            && url.fragment().is_none()
    });
    if !is_good {
        from.fault(format!(
            "`server.public_url` is \"{text}\", but must be like \"https://spindle.example.org\", or empty"
        ));
    }
    Some(text.trim_end_matches('/').to_owned())
}

fn read_logs(from: &mut Reader) -> LogsConfig {
    let format = from
        .choice(
            "logs.format",
            &[("text", Format::Text), ("json", Format::Json)],
        )
        .unwrap_or_default();
    let filter = from.text("logs.filter");
    if let Err(reason) = logs::check_filter(&filter) {
        from.fault(format!("`logs.filter` is \"{filter}\", but must be like \"info\" or \"info,ingest=debug\": {reason}"));
    }
    LogsConfig { format, filter }
}

fn read_metrics(from: &mut Reader) -> MetricsConfig {
    let text = from.text("metrics.listen");
    let listen = (!text.is_empty()).then(|| text.parse());
    if let Some(Err(_)) = listen {
        from.fault(format!(
            "`metrics.listen` is \"{text}\", but must be an address with a port, such as 127.0.0.1:9090, or empty"
        ));
    }
    MetricsConfig {
        listen: listen.and_then(Result::ok),
        token: Secret::new(from.secret("metrics.token")),
    }
}

fn read_clickhouse(from: &mut Reader) -> ClickHouseConfig {
    let urls = from.list("clickhouse.url");
    for url in &urls {
        // The client is built without TLS: reported here, not at the first query.
        if !url.starts_with("http://") {
            from.fault(format!(
                "`clickhouse.url` is \"{url}\", but must be like \"http://host:8123\", or empty; https is not spoken"
            ));
        }
    }
    if urls.len() > REPLICAS_MAX {
        from.fault(format!(
            "`clickhouse.url` names at most {REPLICAS_MAX} replicas"
        ));
    }
    let cluster = from.text("clickhouse.cluster");
    if urls.len() > 1 && cluster.is_empty() {
        from.fault(
            "`clickhouse.url` names several servers, so `clickhouse.cluster` must name their cluster: without it each has tables of its own",
        );
    }
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if !cluster.bytes().all(is_name) {
        from.fault(format!(
            "`clickhouse.cluster` is \"{cluster}\", but must be of letters, digits, `_` and `-`"
        ));
    }
    if !cluster.is_empty() && urls.is_empty() {
        from.fault(
            "`clickhouse.cluster` needs `clickhouse.url`: the embedded engine has no cluster",
        );
    }
    let compressions = [("none", Compression::None), ("lz4", Compression::Lz4)];
    ClickHouseConfig {
        urls,
        cluster: (!cluster.is_empty()).then_some(cluster),
        user: from.text("clickhouse.user"),
        password: Secret::new(from.secret("clickhouse.password")),
        database: from.text("clickhouse.database"),
        compression: from
            .choice("clickhouse.compression", &compressions)
            .unwrap_or_default(),
        send_timeout: from.duration("clickhouse.send_timeout", ms(100)..=secs(3600)),
        insert_timeout: from.duration("clickhouse.insert_timeout", ms(100)..=secs(3600)),
        query_timeout: from.duration("clickhouse.query_timeout", ms(100)..=secs(3600)),
        max_connections: count(from, "clickhouse.max_connections", 1..=10_000),
    }
}

fn read_engine(from: &mut Reader) -> EngineSettings {
    let library = from.text("engine.library");
    let memory = from.size("engine.memory", ByteSize::b(0)..=ByteSize::pib(1));
    if memory != 0 && memory < 512 << 20 {
        from.fault("`engine.memory` must be at least \"512 MiB\", or \"0 B\" to leave it to the machine's size");
    }
    EngineSettings {
        library: (!library.is_empty()).then(|| PathBuf::from(library)),
        memory_bytes: (memory != 0).then_some(memory as u64),
    }
}

fn read_log(from: &mut Reader, data_dir: &Path) -> EmbeddedConfig {
    let mib_to_tib = ByteSize::mib(1)..=ByteSize::tib(100);
    let mib_to_gib = ByteSize::mib(1)..=ByteSize::gib(64);
    let config = EmbeddedConfig {
        folder: data_dir.join("log"),
        partitions: u32::try_from(from.number("log.partitions", 1..=4096)).unwrap_or(u32::MAX),
        max_bytes: from.size("log.max_bytes", mib_to_tib) as u64,
        segment_bytes: from.size("log.segment_bytes", mib_to_gib.clone()) as u64,
        max_record_bytes: from.size("log.max_record_bytes", ByteSize::mib(4)..=ByteSize::gib(1)),
        max_in_flight_bytes: from.size("log.max_in_flight_bytes", mib_to_gib.clone()),
        max_group_bytes: from.size("log.max_group_bytes", mib_to_gib.clone()),
        max_tail_bytes: from.size("log.max_tail_bytes", ByteSize::b(0)..=ByteSize::gib(64)),
        page_cache_bytes: from.size("log.page_cache_bytes", mib_to_gib),
    };
    if config.max_in_flight_bytes < config.max_record_bytes {
        from.fault("`log.max_in_flight_bytes` must not be less than `log.max_record_bytes`");
    }
    config
}

const CLIENT_COSTS: [(&str, ClientCost); 2] = [
    ("table_first", ClientCost::TableFirst),
    ("provided_first", ClientCost::ProvidedFirst),
];

fn read_ingest(from: &mut Reader) -> IngestConfig {
    let kib_to_gib = ByteSize::kib(1)..=ByteSize::gib(64);
    let rate = |from: &mut Reader, key: &str| {
        u32::try_from(from.number(key, 0..=u64::from(u32::MAX))).unwrap_or(u32::MAX)
    };
    let config = IngestConfig {
        body_bytes: from.size("ingest.body_bytes", kib_to_gib.clone()),
        body_timeout: from.duration("ingest.body_timeout", ms(1)..=secs(3600)),
        in_flight_bytes: from.size("ingest.in_flight_bytes", kib_to_gib.clone()),
        allowed_origins: from.list("ingest.allowed_origins"),
        key_events_per_second: rate(from, "ingest.key_events_per_second"),
        keyless_body_bytes: from.size("ingest.keyless_body_bytes", kib_to_gib),
        keyless_events_per_second: rate(from, "ingest.keyless_events_per_second"),
        burst: from.duration("ingest.burst", secs(1)..=secs(3600)),
        max_event_age: from.duration("ingest.max_event_age", secs(0)..=secs(36_600 * 86_400)),
        old_days_per_second: rate(from, "ingest.old_days_per_second"),
        client_cost: from
            .choice("ingest.client_cost", &CLIENT_COSTS)
            .unwrap_or_default(),
    };
    for fault in config.faults() {
        from.fault(format!("`ingest`: {fault}"));
    }
    config
}

fn read_processor(from: &mut Reader) -> ProcessorConfig {
    ProcessorConfig {
        workers: count(from, "processor.workers", 1..=64),
        batch_bytes: from.size(
            "processor.batch_bytes",
            ByteSize::kib(64)..=ByteSize::gib(4),
        ),
        batch_wait: from.duration("processor.batch_wait", ms(0)..=secs(60)),
        hot_bytes: from.size("processor.hot_bytes", ByteSize::b(0)..=ByteSize::tib(1)) as u64,
        hot_idle: from.duration("processor.hot_idle", secs(1)..=secs(86_400)),
        retry_pause_max: from.duration("processor.retry_pause_max", ms(10)..=secs(600)),
        poison_stop_records: u32::try_from(
            from.number("processor.poison_stop_records", 1..=1_000_000),
        )
        .unwrap_or(u32::MAX),
        ..ProcessorConfig::default()
    }
}

fn read_retention(from: &mut Reader) -> Option<u32> {
    let text = from.text("retention.at");
    if text == "never" {
        return None;
    }
    let minute = text.split_once(':').and_then(|(hour, minute)| {
        let digits = |text: &str| {
            let is_two = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
            is_two.then(|| text.parse::<u32>().ok()).flatten()
        };
        let (hour, minute) = (digits(hour)?, digits(minute)?);
        (hour < 24 && minute < 60).then_some(hour * 60 + minute)
    });
    if minute.is_none() {
        from.fault(format!(
            "`retention.at` is \"{text}\", but must be a time of day like \"03:00\", or \"never\""
        ));
    }
    minute
}

fn count(from: &mut Reader, key: &str, bounds: std::ops::RangeInclusive<u64>) -> usize {
    usize::try_from(from.number(key, bounds)).unwrap_or(usize::MAX)
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The settings of a process without environment, flags or file.
    fn defaults() -> (Config, Vec<Shown>) {
        let mut reader = Reader::new(DEFAULT_FILE, "", [], BTreeMap::new());
        let config = Config::read(&mut reader);
        (config, reader.finish().unwrap())
    }

    #[test]
    fn the_default_file_holds_every_key_and_no_other() {
        let (_, shown) = defaults();
        // Passed as the user's file, so that its unknown keys are faults.
        let mut reader = Reader::new(DEFAULT_FILE, DEFAULT_FILE, [], BTreeMap::new());
        Config::read(&mut reader);
        assert_eq!(reader.finish().unwrap().len(), shown.len());
    }

    #[test]
    fn the_default_file_says_what_the_crates_have_as_defaults() {
        let (config, _) = defaults();
        assert_eq!(config.ingest, IngestConfig::default());
        assert_eq!(
            config.log,
            EmbeddedConfig::new(Path::new("./spindle-data").join("log"))
        );
        assert_eq!(
            format!("{:?}", config.processor),
            format!("{:?}", ProcessorConfig::default())
        );
        let store = store::StoreConfig::default();
        let clickhouse = config.clickhouse;
        assert_eq!(
            (
                clickhouse.user,
                clickhouse.database,
                clickhouse.compression,
                clickhouse.max_connections
            ),
            (
                store.user,
                store.database,
                store.compression,
                store.max_connections
            )
        );
        assert_eq!(
            (
                clickhouse.send_timeout,
                clickhouse.insert_timeout,
                clickhouse.query_timeout
            ),
            (
                store.send_timeout,
                store.insert_timeout,
                store.query_timeout
            )
        );
    }

    #[test]
    fn an_address_of_clickhouse_that_cannot_be_spoken_to_is_refused() {
        let refused = |url: &str| {
            let flags = BTreeMap::from([("clickhouse.url".to_owned(), url.to_owned())]);
            let mut reader = Reader::new(DEFAULT_FILE, "", [], flags);
            Config::read(&mut reader);
            reader.finish().is_err()
        };
        assert!(!refused("http://a:8123") && !refused(""));
        assert!(refused("https://a:8443") && refused("a:8123"));
    }

    #[test]
    fn a_public_address_is_one_without_a_secret_and_an_end() {
        let public_url = |url: &str| {
            let flags = BTreeMap::from([("server.public_url".to_owned(), url.to_owned())]);
            let mut reader = Reader::new(DEFAULT_FILE, "", [], flags);
            let read = Config::read(&mut reader).server.public_url;
            reader.finish().is_ok().then_some(read)
        };
        assert_eq!(public_url(""), Some(None));
        let given = public_url("https://spindle.example.org/at/");
        assert_eq!(
            given,
            Some(Some("https://spindle.example.org/at".to_owned()))
        );
        for bad in [
            "spindle.example.org",
            "ftp://a",
            "http://u:p@a",
            "http://a?x=1",
            "http://a#x",
        ] {
            assert_eq!(public_url(bad), None, "{bad}");
        }
    }

    #[test]
    fn retention_is_at_a_time_of_day_or_never() {
        let minute = |text: &str| {
            let flags = BTreeMap::from([("retention.at".to_owned(), text.to_owned())]);
            let mut reader = Reader::new(DEFAULT_FILE, "", [], flags);
            let minute = Config::read(&mut reader).retention_minute;
            reader.finish().is_ok().then_some(minute)
        };
        assert_eq!(defaults().0.retention_minute, Some(180));
        assert_eq!(minute("23:59"), Some(Some(1439)));
        assert_eq!(minute("never"), Some(None));
        for bad in ["24:00", "3", "3:00", "03:60", "-1:00", ""] {
            assert_eq!(minute(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        let variable = (
            "SPINDLE_CLICKHOUSE__PASSWORD".to_owned(),
            "hunter2".to_owned(),
        );
        let mut reader = Reader::new(DEFAULT_FILE, "", [variable], BTreeMap::new());
        let config = Config::read(&mut reader);
        let shown = reader.finish().unwrap();
        assert!(!format!("{config:?}{shown:?}").contains("hunter2"), "(X2)");
    }
}
