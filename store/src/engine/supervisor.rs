//! Starts the engine, waits until it answers, starts it again when it dies, ends it.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::output::LastWords;
use super::{ChildSettings, EXIT_LOCKED, EXIT_UNUSABLE, LIBRARY_VARIABLE, files, library, output};
use crate::config::{Secret, StoreConfig};
use crate::error::StoreError;
use crate::metrics::Metrics;

/// How long a child may take until it answers: it loads 560 MB and all tables.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a child may take to end after SIGTERM. Everything answered is on disk by then anyway.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause before a dead child is started again; doubles while it keeps dying.
const BACKOFF_FIRST: Duration = Duration::from_millis(100);
/// The longest such pause.
const BACKOFF_MOST: Duration = Duration::from_secs(10);
/// A child that lived this long is not in a crash loop.
const STEADY: Duration = Duration::from_secs(30);
/// Ports tried at the first start: a free port can be taken before the child has it.
const PORT_TRIES: usize = 3;
/// How often the child is looked at while nothing is asked of it.
const WATCH_INTERVAL: Duration = Duration::from_millis(50);

/// The program that becomes the engine: ours, with the arguments that make it call [`super::run`].
#[derive(Clone, Debug)]
pub struct Program {
    /// The executable.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// Settings of the engine.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// What to start.
    pub program: Program,
    /// The engine's own folder.
    pub data_dir: PathBuf,
    /// The library; looked for when not given.
    pub library: Option<PathBuf>,
    /// Memory the engine may use before it refuses queries.
    pub memory_bytes: u64,
}

impl EngineConfig {
    /// The engine with the default bound on memory: 60% of the machine's, at least 1 GiB.
    pub fn new(program: Program, data_dir: impl Into<PathBuf>) -> Self {
        let machine = machine_memory_bytes().unwrap_or(4 << 30);
        Self {
            program,
            data_dir: data_dir.into(),
            library: None,
            memory_bytes: (machine / 10 * 6).max(1 << 30),
        }
    }
}

/// The running engine. Dropping it ends the child.
#[derive(Debug)]
pub struct Engine {
    port: u16,
    password: Secret,
    orders: Sender<Order>,
    watcher: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Order {
    Stop,
    ProcessId(Sender<u32>),
}

impl Engine {
    /// Starts the engine and returns when it answers. Blocks: call it where blocking is allowed.
    pub fn start(mut config: EngineConfig, metrics: Metrics) -> Result<Self, StoreError> {
        config.library = config
            .library
            .or_else(|| std::env::var_os(LIBRARY_VARIABLE).map(PathBuf::from));
        library::find(config.library.as_deref()).map_err(StoreError::Engine)?;
        let folder = &config.data_dir;
        files::make_folder(folder).map_err(|error| StoreError::file(folder, error))?;
        let password = files::password(folder).map_err(|error| StoreError::file(folder, error))?;
        let (orders, inbox) = channel();
        let (report, started) = channel();
        // The child is bound to the thread that starts it (Linux ends it with that thread), so this one thread
        // starts it every time and lives as long as it may.
        let watcher = std::thread::Builder::new()
            .name("engine-watch".to_owned())
            .spawn(move || watch(&config, &metrics, &inbox, &report))
            .map_err(|error| StoreError::Engine(format!("cannot start a thread: {error}")))?;
        match started.recv() {
            Ok(Ok(port)) => Ok(Self {
                port,
                password,
                orders,
                watcher: Some(watcher),
            }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(StoreError::Engine("the engine's watcher ended".to_owned())),
        }
    }

    /// Its address; the same over restarts.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The settings with which a [`crate::Store`] reaches it.
    pub fn store_config(&self, database: &str) -> StoreConfig {
        StoreConfig {
            url: self.url(),
            user: super::USER.to_owned(),
            password: self.password.clone(),
            database: database.to_owned(),
            ..StoreConfig::default()
        }
    }

    /// Process id of the child that runs now; while it is being started again, of the one before.
    pub fn process_id(&self) -> Option<u32> {
        let (answer, id) = channel();
        self.orders.send(Order::ProcessId(answer)).ok()?;
        id.recv().ok()
    }

    /// Ends the child, gently first, and returns when it is gone. Blocks.
    pub fn shutdown(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        // An error means that the watcher is gone, and the child with it.
        let _ = self.orders.send(Order::Stop);
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A child and its last words.
struct Running {
    child: Child,
    words: LastWords,
    since: Instant,
}

/// What ended a wait.
enum Event {
    Died(ExitStatus),
    Stop,
}

fn watch(
    config: &EngineConfig,
    metrics: &Metrics,
    inbox: &Receiver<Order>,
    report: &Sender<Result<u16, StoreError>>,
) {
    let (mut running, port) = match first_start(config) {
        Ok(started) => started,
        Err(error) => {
            let _ = report.send(Err(error));
            return;
        }
    };
    metrics.engine_up.set(1);
    if report.send(Ok(port)).is_err() {
        return end(running);
    }
    let mut backoff = BACKOFF_FIRST;
    loop {
        let status = match wait(&mut running, inbox) {
            Event::Stop => break,
            Event::Died(status) => status,
        };
        metrics.engine_up.set(0);
        metrics.engine_restarts.inc();
        if running.since.elapsed() > STEADY {
            backoff = BACKOFF_FIRST;
        }
        tracing::warn!(engine.status = %status, engine.words = running.words.get(), "the engine died; starting it again");
        running = loop {
            if pause(backoff, running.child.id(), inbox) {
                metrics.engine_up.set(0);
                return;
            }
            backoff = (backoff * 2).min(BACKOFF_MOST);
            match spawn(config, port).and_then(|child| ready(child, port)) {
                Ok(running) => break running,
                Err(failure) => {
                    tracing::error!(engine.failure = %failure.message, "the engine does not start")
                }
            }
        };
        metrics.engine_up.set(1);
    }
    metrics.engine_up.set(0);
    end(running);
}

/// Why a child did not get ready.
struct Failure {
    message: String,
    /// Whether another port could help.
    hopeless: bool,
}

fn first_start(config: &EngineConfig) -> Result<(Running, u16), StoreError> {
    let mut last = String::new();
    for _ in 0..PORT_TRIES {
        let port = free_port()
            .map_err(|error| StoreError::Engine(format!("no free port on loopback: {error}")))?;
        match spawn(config, port).and_then(|child| ready(child, port)) {
            Ok(running) => return Ok((running, port)),
            Err(failure) if failure.hopeless => return Err(StoreError::Engine(failure.message)),
            Err(failure) => last = failure.message,
        }
    }
    Err(StoreError::Engine(last))
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}

fn spawn(config: &EngineConfig, port: u16) -> Result<Running, Failure> {
    let settings = ChildSettings {
        data_dir: config.data_dir.clone(),
        port,
        library: config.library.clone(),
        memory_bytes: config.memory_bytes,
        parent: std::process::id(),
    };
    let mut child = Command::new(&config.program.path)
        .args(&config.program.arguments)
        .envs(settings.to_variables())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| Failure {
            message: format!("cannot start the engine: {error}"),
            hopeless: true,
        })?;
    let words = child.stderr.take().map(output::forward).unwrap_or_default();
    Ok(Running {
        child,
        words,
        since: Instant::now(),
    })
}

/// Waits until the child answers.
fn ready(mut running: Running, port: u16) -> Result<Running, Failure> {
    let mut pause = Duration::from_millis(10);
    while running.since.elapsed() < READY_TIMEOUT {
        if let Ok(Some(status)) = running.child.try_wait() {
            let code = status.code();
            let words = running.words.get();
            let message = if words.is_empty() {
                format!("the engine ended with {status}")
            } else {
                words
            };
            return Err(Failure {
                message,
                hopeless: matches!(code, Some(EXIT_LOCKED | EXIT_UNUSABLE)),
            });
        }
        if answers(port) {
            return Ok(running);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
    end(running);
    Err(Failure {
        message: format!(
            "the engine did not answer within {} s",
            READY_TIMEOUT.as_secs()
        ),
        hopeless: true,
    })
}

/// Whether `/ping` is answered as ClickHouse answers it.
fn answers(port: u16) -> bool {
    let attempt = || -> io::Result<bool> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_millis(500))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(b"GET /ping HTTP/1.1\r\nHost: engine\r\nConnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.take(4096).read_to_end(&mut answer)?;
        Ok(answer.windows(3).any(|window| window == b"Ok."))
    };
    attempt().unwrap_or(false)
}

/// Waits until the child dies or an order ends the wait.
fn wait(running: &mut Running, inbox: &Receiver<Order>) -> Event {
    loop {
        match inbox.recv_timeout(WATCH_INTERVAL) {
            Ok(Order::ProcessId(answer)) => drop(answer.send(running.child.id())),
            Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => return Event::Stop,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Ok(Some(status)) = running.child.try_wait() {
            return Event::Died(status);
        }
    }
}

/// Waits out a pause; true when it was ended by an order to stop.
fn pause(length: Duration, last_id: u32, inbox: &Receiver<Order>) -> bool {
    let end = Instant::now() + length;
    loop {
        match inbox.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(Order::ProcessId(answer)) => drop(answer.send(last_id)),
            Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => return true,
            Err(RecvTimeoutError::Timeout) => return false,
        }
    }
}

/// Ends the child: SIGTERM, and SIGKILL when that is not heard.
fn end(mut running: Running) {
    if let Some(id) = i32::try_from(running.child.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw)
    {
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
    }
    let deadline = Instant::now() + STOP_TIMEOUT;
    while Instant::now() < deadline {
        if !matches!(running.child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = running.child.kill();
    let _ = running.child.wait();
}

/// Memory of this machine, or of the container that this is.
fn machine_memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    let machine = kibibytes << 10;
    let container = std::fs::read_to_string("/sys/fs/cgroup/memory.max")
        .ok()
        .and_then(|text| text.trim().parse().ok());
    Some(container.map_or(machine, |limit: u64| limit.min(machine)))
}
