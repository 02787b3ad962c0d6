//! A deployment of several processes of each tier over a broker and an engine of its own, with a proxy between each
//! process and each server it speaks to.

use std::time::Duration;

use eventlog::conformance::broker::{Cluster, Door, Options, free_ports};
use eventlog::conformance::proxy::Proxy;
use store::StoreConfig;
use store::engine::Engine;
use tempfile::TempDir;

use crate::backing::{port_of, start_engine};
use crate::harness::{Server, Setup};

/// A member that is silent for so long has lost its partitions. Short, because tests wait for it.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(6);
/// Partitions of the topic of events.
pub(crate) const PARTITIONS: usize = 4;

/// How many processes of each tier are started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) ingests: usize,
    pub(crate) processors: usize,
    pub(crate) queries: usize,
}

/// One process of a tier: what it is started with, and the process while there is one.
pub(crate) struct Tier {
    role: &'static str,
    pub(crate) name: String,
    /// Before the folder with its log, so that a failed test shows what it logged.
    running: Option<Server>,
    setup: Setup,
    pub(crate) kafka: Proxy,
    pub(crate) clickhouse: Proxy,
}

impl Tier {
    /// The running process.
    pub(crate) fn server(&self) -> &Server {
        self.running.as_ref().expect("the process runs")
    }

    /// Takes the process, to end it.
    pub(crate) fn take(&mut self) -> Server {
        self.running.take().expect("the process runs")
    }

    /// Starts it, and does not wait until it is ready.
    pub(crate) async fn start(&mut self) {
        self.running = Some(self.setup.start_tier(self.role).await);
    }
}

/// Everything, ended when dropped: the processes first.
pub(crate) struct Deployment {
    pub(crate) ingests: Vec<Tier>,
    pub(crate) processors: Vec<Tier>,
    pub(crate) queries: Vec<Tier>,
    pub(crate) kafka: Cluster,
    pub(crate) engine: Engine,
    pub(crate) key: String,
    clickhouse: StoreConfig,
    /// What every process is started with, besides its proxies.
    common: Setup,
    /// Proxies in front of listeners of the broker that no process uses: one more than there are processes at first, for
    /// one that is added.
    doors: Vec<Proxy>,
    /// Processes that were set up so far.
    set_up: usize,
    _folder: TempDir,
}

impl Deployment {
    /// Starts the servers, makes the tables, starts every process and waits until all are ready. Time-outs are short.
    pub(crate) async fn start(plan: Plan) -> Self {
        let session = format!("{}ms", SESSION_TIMEOUT.as_millis());
        let short = [
            ("kafka.session_timeout", session.as_str()),
            ("kafka.append_timeout", "3s"),
            ("kafka.partitions", &PARTITIONS.to_string()),
        ];
        Self::start_with(plan, &short).await
    }

    /// The same with these settings, and the defaults for all others.
    pub(crate) async fn start_with(plan: Plan, settings: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().unwrap();
        let engine_folder = folder.path().join("engine");
        let mut to_kafka = Vec::new();
        for port in free_ports(plan.ingests + plan.processors + plan.queries + 1) {
            to_kafka.push((port, Proxy::to(port).await));
        }
        let doors = to_kafka.iter().map(|(port, proxy)| Door {
            port: *port,
            advertised: proxy.address.port(),
        });
        let options = Options {
            doors: doors.collect(),
            ..Options::new(1)
        };
        let servers = tokio::task::spawn_blocking(move || {
            (Cluster::with(&options), start_engine(engine_folder))
        });
        let (kafka, engine) = servers.await.unwrap();
        let clickhouse = engine.store_config("spindle");
        let with = |setup: Setup, (key, value): &(&str, &str)| setup.with(key, value);
        let common = settings.iter().fold(Setup::new(), with);
        let mut deployment = Self {
            ingests: Vec::new(),
            processors: Vec::new(),
            queries: Vec::new(),
            key: common.key.clone(),
            kafka,
            engine,
            clickhouse,
            common,
            doors: to_kafka.into_iter().map(|(_, proxy)| proxy).collect(),
            set_up: 0,
            _folder: folder,
        };
        let roles = [
            ("ingest", plan.ingests),
            ("processor", plan.processors),
            ("query", plan.queries),
        ];
        for role in roles
            .iter()
            .flat_map(|(role, count)| std::iter::repeat_n(*role, *count))
        {
            let tier = deployment.tier(role).await;
            deployment.of(role).push(tier);
        }
        deployment.queries[0].setup.migrate();
        for tier in deployment.tiers() {
            tier.start().await;
        }
        deployment.ready().await;
        deployment
    }

    /// A process that is not started yet, behind proxies of its own.
    async fn tier(&mut self, role: &'static str) -> Tier {
        let kafka = self.doors.pop();
        let kafka = kafka.expect("a listener of the broker that no process uses");
        let clickhouse = Proxy::to(port_of(&self.clickhouse)).await;
        let mut setup = Setup::new()
            .with("kafka.brokers", &kafka.address.to_string())
            .with("clickhouse.url", &format!("http://{}", clickhouse.address))
            .with("clickhouse.user", &self.clickhouse.user)
            .with("clickhouse.password", self.clickhouse.password.reveal());
        setup.variables.extend(self.common.variables.clone());
        setup.key.clone_from(&self.common.key);
        setup.token.clone_from(&self.common.token);
        self.set_up += 1;
        Tier {
            role,
            name: format!("{role}-{}", self.set_up),
            setup,
            running: None,
            kafka,
            clickhouse,
        }
    }

    /// Starts another processor, and does not wait until it is ready.
    pub(crate) async fn add_processor(&mut self) {
        let mut tier = self.tier("processor").await;
        tier.start().await;
        self.processors.push(tier);
    }

    /// `kill -9` of a processor that is not started again.
    pub(crate) fn kill_processor(&mut self, place: usize) {
        let mut tier = self.processors.remove(place);
        tier.take().kill();
        self.doors.push(tier.kafka);
    }

    /// The processes of a tier.
    pub(crate) fn of(&mut self, role: &str) -> &mut Vec<Tier> {
        match role {
            "ingest" => &mut self.ingests,
            "processor" => &mut self.processors,
            _ => &mut self.queries,
        }
    }

    /// Every process.
    pub(crate) fn tiers(&mut self) -> impl Iterator<Item = &mut Tier> {
        let (ingests, processors) = (&mut self.ingests, &mut self.processors);
        ingests
            .iter_mut()
            .chain(processors)
            .chain(&mut self.queries)
    }

    /// Where batches are sent to.
    pub(crate) fn ingest_urls(&self) -> Vec<String> {
        let urls = self.ingests.iter().map(|tier| tier.server().url.clone());
        urls.collect()
    }

    /// The process that answers questions.
    pub(crate) fn query(&self) -> &Server {
        self.queries[0].server()
    }

    /// A way to ClickHouse past every proxy.
    pub(crate) fn asking(&self) -> Asking {
        Asking(self.clickhouse.clone())
    }

    /// The one value a statement gives.
    pub(crate) async fn sql(&self, statement: &str) -> String {
        self.asking().sql(statement).await
    }

    /// Waits until every process is ready.
    pub(crate) async fn ready(&self) {
        let tiers = self
            .ingests
            .iter()
            .chain(&self.processors)
            .chain(&self.queries);
        for tier in tiers {
            tier.server().ready().await;
        }
    }
}

/// Asks ClickHouse itself.
pub(crate) struct Asking(StoreConfig);

impl Asking {
    /// The one value a statement gives.
    pub(crate) async fn sql(&self, statement: &str) -> String {
        let answer = reqwest::Client::new()
            .post(format!("{}/?database={}", self.0.url, self.0.database))
            .header("x-clickhouse-user", &self.0.user)
            .header("x-clickhouse-key", self.0.password.reveal())
            .body(statement.to_owned())
            .send()
            .await
            .unwrap();
        answer.text().await.unwrap().trim().to_owned()
    }
}
