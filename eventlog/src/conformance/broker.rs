//! Real Kafka brokers for tests: processes on loopback, in a folder that is removed with them.
//!
//! The jars come from `deploy/kafka/target/libs` (`make kafka-jars`), or from the folder in `SPINDLE_KAFKA_LIBS`. Each
//! broker is the child of a shell that waits on a pipe from this process: when the pipe closes, for whatever reason,
//! the shell kills the broker. So none is left behind, not even by a test that is killed.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode;

/// Time for a broker to answer: a Java machine on a busy computer.
const PATIENCE: Duration = Duration::from_secs(120);
/// Pause between two tries while a cluster starts.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// Pauses and resumes the broker by order. Kills it when the pipe closes, and removes its folder, except after `keep`.
const KEEPER: &str = r#"
folder=$1; shift
"$@" </dev/null & broker=$!
removed=$folder
while read -r order; do case $order in
  keep) removed=; break;;
  pause) kill -STOP $broker;;
  resume) kill -CONT $broker;;
esac; done
kill -9 $broker; wait $broker 2>/dev/null
if [ -n "$removed" ]; then rm -rf "$removed"; rmdir "$(dirname "$removed")" 2>/dev/null; fi
exit 0
"#;

#[derive(Clone, Debug)]
pub struct Options {
    /// Number of brokers; each is a controller as well.
    pub brokers: usize,
    /// Further listeners of the first broker, each with a separate port for clients.
    pub doors: Vec<Door>,
    /// Properties of the brokers; they override the defaults.
    pub properties: Vec<(String, String)>,
}

impl Options {
    pub fn new(brokers: usize) -> Self {
        Options {
            brokers,
            doors: Vec::new(),
            properties: Vec::new(),
        }
    }
}

/// A separate listener of a broker, for use behind a proxy.
#[derive(Clone, Copy, Debug)]
pub struct Door {
    /// The port where the broker listens, on 127.0.0.1.
    pub port: u16,
    /// The port that it advertises to clients of this listener.
    pub advertised: u16,
}

/// A cluster of brokers; ends when dropped.
pub struct Cluster {
    nodes: Vec<Mutex<Node>>,
    folder: PathBuf,
}

struct Node {
    folder: PathBuf,
    port: u16,
    process: Option<(Child, ChildStdin)>,
}

impl Cluster {
    /// One broker for all tests of this process; ends with the process.
    pub fn shared() -> &'static Cluster {
        static SHARED: OnceLock<Cluster> = OnceLock::new();
        SHARED.get_or_init(|| Cluster::start(1))
    }

    /// Starts brokers and waits until they answer. Blocks.
    pub fn start(brokers: usize) -> Cluster {
        Cluster::with(&Options::new(brokers))
    }

    pub fn with(options: &Options) -> Cluster {
        let folder = tempfile::Builder::new()
            .prefix("spindle-kafka-")
            .tempdir()
            .expect("a folder for the brokers")
            .keep();
        let ports = free_ports(options.brokers * 2);
        let id = "c3BpbmRsZS10ZXN0cy1hLg";
        let voters: Vec<String> = (0..options.brokers)
            .map(|i| format!("{}@127.0.0.1:{}", i + 1, ports[i * 2 + 1]))
            .collect();
        let mut formats = Vec::new();
        let mut nodes = Vec::new();
        for i in 0..options.brokers {
            let node = folder.join(format!("node-{}", i + 1));
            fs::create_dir(&node).expect("a folder for a broker");
            let ports = &ports[i * 2..i * 2 + 2];
            let properties = properties(options, i, &node, ports, &voters.join(","));
            fs::write(node.join("server.properties"), properties).expect("a file");
            let mut format = java(&node);
            format.args(["kafka.tools.StorageTool", "format", "--cluster-id", id]);
            format.arg("--config").arg(node.join("server.properties"));
            format.stdout(Stdio::null()).stderr(log(&node));
            formats.push(format.spawn().expect("java can be started"));
            nodes.push(Mutex::new(Node {
                folder: node,
                port: ports[0],
                process: None,
            }));
        }
        for mut format in formats {
            let status = format.wait().expect("the end of the formatting");
            assert!(status.success(), "the storage could not be formatted");
        }
        let cluster = Cluster { nodes, folder };
        for i in 0..options.brokers {
            cluster.node(i).start();
        }
        cluster.wait_for(options.brokers);
        cluster
    }

    fn node(&self, i: usize) -> std::sync::MutexGuard<'_, Node> {
        self.nodes[i].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `host:port` of each broker without a proxy.
    pub fn bootstrap(&self) -> String {
        let brokers = (0..self.nodes.len()).map(|i| format!("127.0.0.1:{}", self.port(i)));
        brokers.collect::<Vec<_>>().join(",")
    }

    /// The port of a broker without a proxy.
    pub fn port(&self, i: usize) -> u16 {
        self.node(i).port
    }

    /// Kills a broker (SIGKILL) and waits for its end. Blocks.
    pub fn kill(&self, i: usize) {
        self.node(i).kill();
    }

    /// Puts a broker to sleep (SIGSTOP).
    pub fn pause(&self, i: usize) {
        self.node(i).order("pause");
    }

    /// Wakes a broker that sleeps.
    pub fn resume(&self, i: usize) {
        self.node(i).order("resume");
    }

    /// Starts a killed broker again, and waits until all started ones answer. Blocks.
    pub fn restart(&self, i: usize) {
        self.node(i).start();
        let alive = (0..self.nodes.len()).filter(|i| self.node(*i).process.is_some());
        self.wait_for(alive.count());
    }

    /// The broker that leads a partition, counted from 0. Blocks.
    pub fn leader(&self, topic: &str, partition: u32) -> Option<usize> {
        let client = self.client();
        let metadata = client.fetch_metadata(Some(topic), Duration::from_secs(5));
        let metadata = metadata.ok()?;
        let partitions = metadata.topics().first()?.partitions();
        let found = partitions.iter().find(|p| p.id() as u32 == partition)?;
        usize::try_from(found.leader() - 1).ok()
    }

    /// Adds partitions to a topic until it has this many.
    pub async fn grow(&self, topic: &str, partitions: usize) {
        let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
            .set("bootstrap.servers", self.bootstrap())
            .create()
            .expect("an admin client");
        let new = NewPartitions::new(topic, partitions);
        let until = Instant::now() + PATIENCE;
        loop {
            let done = admin.create_partitions([&new], &AdminOptions::new()).await;
            let done = done.expect("an answer");
            match done.first() {
                Some(Ok(_)) => return,
                // The controller of a cluster that has just started does not count all of its brokers yet.
                Some(Err((_, RDKafkaErrorCode::InvalidReplicationFactor)))
                    if Instant::now() < until => {}
                failed => panic!("{topic} does not get {partitions} partitions: {failed:?}"),
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }

    fn client(&self) -> BaseConsumer {
        ClientConfig::new()
            .set("bootstrap.servers", self.bootstrap())
            .set("reconnect.backoff.ms", "50")
            .set("reconnect.backoff.max.ms", "200")
            .set_log_level(rdkafka::config::RDKafkaLogLevel::Emerg)
            .create()
            .expect("a client")
    }

    /// Waits until this many brokers are in the cluster.
    fn wait_for(&self, brokers: usize) {
        let client = self.client();
        let until = Instant::now() + PATIENCE;
        loop {
            // Returns as soon as there is an answer: an error at once, or after this long.
            let metadata = client.fetch_metadata(None, Duration::from_millis(500));
            if metadata.is_ok_and(|metadata| metadata.brokers().len() == brokers) {
                return;
            }
            let logs = (0..self.nodes.len()).map(|i| self.node(i).last_words());
            let logs: Vec<String> = logs.collect();
            let died = logs.iter().any(|log| log.contains("Exiting Kafka"));
            if died || Instant::now() > until {
                panic!(
                    "no {brokers} brokers within {PATIENCE:?}: {}",
                    logs.join("\n")
                );
            }
            std::thread::sleep(ASK_AGAIN);
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for i in 0..self.nodes.len() {
            self.node(i).kill();
        }
        // A folder that cannot be removed stays in the temporary folder.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Node {
    fn start(&mut self) {
        assert!(self.process.is_none(), "the broker runs");
        let broker = java(&self.folder);
        let mut keeper = Command::new("sh");
        keeper.args(["-c", KEEPER, "keeper"]).arg(&self.folder);
        keeper.arg(broker.get_program()).args(broker.get_args());
        keeper
            .arg("kafka.Kafka")
            .arg(self.folder.join("server.properties"));
        keeper.stdin(Stdio::piped()).stdout(Stdio::null());
        keeper.stderr(log(&self.folder));
        // A signal from the terminal reaches this process, and the shell only through the pipe.
        keeper.process_group(0);
        let mut child = keeper.spawn().expect("sh can be started");
        let pipe = child.stdin.take().expect("the pipe was asked for");
        self.process = Some((child, pipe));
    }

    fn kill(&mut self) {
        if let Some((mut keeper, mut pipe)) = self.process.take() {
            // Keeps the folder. If the shell is dead, so is the broker.
            let _ = pipe.write_all(b"keep\n");
            drop(pipe);
            let _ = keeper.wait();
        }
    }

    fn order(&mut self, order: &str) {
        let (_, pipe) = self.process.as_mut().expect("the broker runs");
        writeln!(pipe, "{order}").expect("the keeper listens");
    }

    /// The end of the broker's output.
    fn last_words(&self) -> String {
        let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

fn java(folder: &Path) -> Command {
    let kafka = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/kafka");
    let libs = std::env::var_os("SPINDLE_KAFKA_LIBS");
    let libs = libs.map_or_else(|| kafka.join("target/libs"), PathBuf::from);
    assert!(
        libs.is_dir(),
        "no jars of Kafka in {}: run `make kafka-jars`",
        libs.display()
    );
    let mut java = Command::new("java");
    // Tuned for a fast start and little memory, because there may be several.
    java.args([
        "-Xms64m",
        "-Xmx384m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
    ]);
    java.arg(format!(
        "-Dlog4j2.configurationFile={}",
        kafka.join("log4j2.properties").display()
    ));
    java.arg(format!("-Djava.io.tmpdir={}", folder.display()));
    // Made by `deploy/kafka/archive.sh`. Java ignores one that does not fit.
    let archive = libs.join("broker.jsa");
    if archive.is_file() {
        java.arg(format!("-XX:SharedArchiveFile={}", archive.display()));
    }
    java.arg("-cp").arg(format!("{}/*", libs.display()));
    java
}

fn log(folder: &Path) -> Stdio {
    let mut options = fs::OpenOptions::new();
    options.create(true).append(true);
    let log = options.open(folder.join("log")).expect("a log file");
    Stdio::from(log)
}

fn properties(options: &Options, i: usize, folder: &Path, ports: &[u16], voters: &str) -> String {
    let (port, controller) = (ports[0], ports[1]);
    let (mut listening, mut told, mut protocols) = (String::new(), String::new(), String::new());
    for (at, door) in options.doors.iter().enumerate().filter(|_| i == 0) {
        listening.push_str(&format!(",DOOR{at}://127.0.0.1:{}", door.port));
        told.push_str(&format!(",DOOR{at}://127.0.0.1:{}", door.advertised));
        protocols.push_str(&format!(",DOOR{at}:PLAINTEXT"));
    }
    let replicas = options.brokers.min(3);
    let in_sync = options.brokers.clamp(1, 2);
    let mut text = format!(
        "node.id={id}
process.roles=broker,controller
controller.quorum.voters={voters}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}{listening}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}{told}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT{protocols}
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.num.partitions=4
offsets.topic.replication.factor={replicas}
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr={in_sync}
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor={replicas}
share.coordinator.state.topic.min.isr={in_sync}
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
log.cleaner.dedupe.buffer.size=4194304
num.network.threads=2
num.io.threads=2
background.threads=2
",
        id = i + 1,
        data = folder.join("data").display(),
    );
    for (name, value) in &options.properties {
        text.push_str(&format!("{name}={value}\n"));
    }
    text
}

/// Ports that are free now, below the range of outgoing connections, so that a killed broker finds its port free.
pub fn free_ports(count: usize) -> Vec<u16> {
    let random = RandomState::new();
    // Held until all are found, so that they differ.
    let free = (0_u64..).filter_map(|i| {
        let port = 12_000 + random.hash_one(i) % 20_000;
        TcpListener::bind(("127.0.0.1", u16::try_from(port).ok()?)).ok()
    });
    let listeners: Vec<TcpListener> = free.take(count).collect();
    let ports = listeners.iter().map(|listener| {
        let address = listener.local_addr().expect("it is bound");
        address.port()
    });
    ports.collect()
}
