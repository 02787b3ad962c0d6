//! Starts the engine, waits until it answers, restarts it when it dies, and ends it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::output::LastWords;
use super::port::ReservedPort;
use super::probe::{Health, Liveness, Probe, Watchdog};
use super::{ChildSettings, LIBRARY_VARIABLE, files, library, output};
use crate::client::config::{Secret, StoreConfig};
use crate::error::StoreError;
use crate::metrics::Metrics;

/// Time for a child to answer: it loads 560 MB and all tables.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for a child to end after SIGTERM. Everything acknowledged is on disk by then.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause before a dead child is restarted; doubles while it keeps dying.
const BACKOFF_FIRST: Duration = Duration::from_millis(100);
/// The longest such pause.
const BACKOFF_MOST: Duration = Duration::from_secs(10);
/// A child that lived this long is not in a crash loop.
const STEADY: Duration = Duration::from_secs(30);
/// Time-out of one probe of a starting child.
const READY_PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval of checks of the child.
const WATCH_INTERVAL: Duration = Duration::from_millis(50);
/// Variables that the child inherits from the server's environment, which contains secrets: paths of libraries and
/// temporary files, and the time zone.
const INHERITED_VARIABLES: &[&str] = &["LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TMPDIR", "TZ"];

/// The program that becomes the engine: ours, with arguments that make it call [`super::run`].
#[derive(Clone, Debug)]
pub struct Program {
    pub path: PathBuf,
    pub arguments: Vec<OsString>,
}

#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The child's program.
    pub program: Program,
    /// The engine's folder.
    pub data_dir: PathBuf,
    /// The library; `None` for the usual paths.
    pub library: Option<PathBuf>,
    /// Memory limit, above which the engine rejects queries.
    pub memory_bytes: u64,
    /// When the engine is restarted because it does not answer.
    pub liveness: Liveness,
}

impl EngineConfig {
    /// With the default memory limit: 60% of the machine's, at least 1 GiB.
    pub fn new(program: Program, data_dir: impl Into<PathBuf>) -> Self {
        let machine = machine_memory_bytes().unwrap_or(4 << 30);
        Self {
            program,
            data_dir: data_dir.into(),
            library: None,
            memory_bytes: (machine / 10 * 6).max(1 << 30),
            liveness: Liveness::default(),
        }
    }
}

/// The running engine. Dropping it ends the child.
#[derive(Debug)]
pub struct Engine {
    /// Held for as long as clients may send the password to it.
    port: ReservedPort,
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
        let port = ReservedPort::new()
            .map_err(|error| StoreError::Engine(format!("no free port on loopback: {error}")))?;
        let probe = Probe {
            port: port.number(),
            password: password.clone(),
            overrun: config.liveness.overrun,
        };
        let (orders, inbox) = channel();
        let (report, started) = channel();
        // Linux ends the child with the thread that started it, so this one thread starts it every time and lives as
        // long as the engine.
        let watcher = std::thread::Builder::new()
            .name("engine-watch".to_owned())
            .spawn(move || watch(&config, &probe, &metrics, &inbox, &report))
            .map_err(|error| StoreError::Engine(format!("cannot start a thread: {error}")))?;
        match started.recv() {
            Ok(Ok(())) => Ok(Self {
                port,
                password,
                orders,
                watcher: Some(watcher),
            }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(StoreError::Engine("the engine's watcher ended".to_owned())),
        }
    }

    /// Its URL, constant over restarts.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port.number())
    }

    /// The settings of a [`crate::Store`] for it.
    pub fn store_config(&self, database: &str) -> StoreConfig {
        StoreConfig {
            url: self.url(),
            user: super::USER.to_owned(),
            password: self.password.clone(),
            database: database.to_owned(),
            ..StoreConfig::default()
        }
    }

    /// Process id of the running child; during a restart, of the previous one.
    pub fn process_id(&self) -> Option<u32> {
        let (answer, id) = channel();
        self.orders.send(Order::ProcessId(answer)).ok()?;
        id.recv().ok()
    }

    /// Ends the child, gracefully first, and returns when it is gone. Blocks.
    pub fn shutdown(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        // On an error the watcher is gone, and the child with it.
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

struct Running {
    child: Child,
    words: LastWords,
    since: Instant,
}

enum Event {
    Died(ExitStatus),
    Failed(Health),
    Stop,
}

fn watch(
    config: &EngineConfig,
    probe: &Probe,
    metrics: &Metrics,
    inbox: &Receiver<Order>,
    report: &Sender<Result<(), StoreError>>,
) {
    let start = || spawn(config, probe.port).and_then(|child| ready(child, probe));
    let mut running = match start() {
        Ok(started) => started,
        Err(message) => {
            let _ = report.send(Err(StoreError::Engine(message)));
            return;
        }
    };
    metrics.engine_up.set(1);
    if report.send(Ok(())).is_err() {
        return end(running);
    }
    let mut backoff = BACKOFF_FIRST;
    loop {
        let watchdog = Watchdog::start(probe.clone(), config.liveness);
        let event = wait(&mut running, &watchdog, inbox);
        metrics.engine_up.set(0);
        match event {
            Event::Stop => break,
            Event::Died(status) => {
                tracing::warn!(engine.status = %status, engine.words = running.words.get(), "the engine died; starting it again")
            }
            Event::Failed(health) => {
                let message = match health {
                    Health::Stuck => {
                        "a read runs long past its time limit and cannot be cancelled, perhaps in a damaged part; \
                         restarting the engine"
                    }
                    _ => "the engine does not answer on its port; restarting it",
                };
                tracing::error!("{message}");
                kill(&mut running);
            }
        }
        metrics.engine_restarts.inc();
        if running.since.elapsed() > STEADY {
            backoff = BACKOFF_FIRST;
        }
        running = loop {
            if pause(backoff, running.child.id(), inbox) {
                return;
            }
            backoff = (backoff * 2).min(BACKOFF_MOST);
            match start() {
                Ok(running) => break running,
                Err(message) => {
                    tracing::error!(engine.failure = %message, "the engine does not start")
                }
            }
        };
        metrics.engine_up.set(1);
    }
    end(running);
}

fn spawn(config: &EngineConfig, port: u16) -> Result<Running, String> {
    let settings = ChildSettings {
        data_dir: config.data_dir.clone(),
        port,
        library: config.library.clone(),
        memory_bytes: config.memory_bytes,
        parent: std::process::id(),
    };
    let inherited = INHERITED_VARIABLES
        .iter()
        .filter_map(|name| std::env::var_os(name).map(|value| (name, value)));
    let mut child = Command::new(&config.program.path)
        .args(&config.program.arguments)
        .env_clear()
        .envs(inherited)
        .envs(settings.to_variables())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start the engine: {error}"))?;
    let words = child.stderr.take().map(output::forward).unwrap_or_default();
    Ok(Running {
        child,
        words,
        since: Instant::now(),
    })
}

fn ready(mut running: Running, probe: &Probe) -> Result<Running, String> {
    let mut pause = Duration::from_millis(10);
    while running.since.elapsed() < READY_TIMEOUT {
        if let Ok(Some(status)) = running.child.try_wait() {
            let words = running.words.get();
            return Err(match words.is_empty() {
                true => format!("the engine ended with {status}"),
                false => words,
            });
        }
        if probe.ask(READY_PROBE_TIMEOUT) != Health::Silent {
            return Ok(running);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
    end(running);
    Err(format!(
        "the engine did not answer within {} s",
        READY_TIMEOUT.as_secs()
    ))
}

/// Waits until the child dies, stops answering, or an order ends the wait.
fn wait(running: &mut Running, watchdog: &Watchdog, inbox: &Receiver<Order>) -> Event {
    loop {
        match inbox.recv_timeout(WATCH_INTERVAL) {
            Ok(Order::ProcessId(answer)) => drop(answer.send(running.child.id())),
            Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => return Event::Stop,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Ok(Some(status)) = running.child.try_wait() {
            return Event::Died(status);
        }
        if let Some(health) = watchdog.failure() {
            return Event::Failed(health);
        }
    }
}

/// Pauses; `true` when an order to stop ended the pause.
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

/// Ends the child: SIGTERM, then SIGKILL.
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
    kill(&mut running);
}

/// Everything acknowledged is on disk, so ending an engine that ignores SIGTERM loses nothing.
fn kill(running: &mut Running) {
    let _ = running.child.kill();
    let _ = running.child.wait();
}

/// Memory of this machine or container.
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
