//! Starts the real binary and talks to it.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::backing::Backing;
use crate::front::{Front, Tiers};
use crate::process::{Process, Start};

/// A debug build on two busy cores needs this long at worst; a release build needs about one second.
pub(crate) const READY_WITHIN: Duration = Duration::from_secs(60);
/// Time from an answer to its rows at worst, after restarts of everything.
pub(crate) const VISIBLE_WITHIN: Duration = Duration::from_secs(90);

/// Runs tests against both ways to run, everything in one process and tiers behind one address: for subjects that cross
/// tiers. The API of a single tier is the same code in both.
macro_rules! both_ways {
    ($($test:ident),+ $(,)?) => {
        mod in_one_process {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test($crate::harness::Setup::new()).await;
            })+
        }

        mod in_tiers {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test($crate::harness::Setup::distributed().await).await;
            })+
        }
    };
}
pub(crate) use both_ways;

/// Least pause between two questions while something is awaited.
const ASK_AGAIN: Duration = Duration::from_millis(20);
/// From the answer to a change until every process knows it.
pub(crate) const KNOWN_WITHIN: Duration = Duration::from_secs(1);

/// What a server is started with. The folder outlives the processes that use it.
pub(crate) struct Setup {
    pub(crate) folder: TempDir,
    pub(crate) key: String,
    pub(crate) token: String,
    pub(crate) variables: Vec<(String, String)>,
    /// What the tiers stand on, if they are processes of their own.
    pub(crate) backing: Option<Backing>,
}

impl Setup {
    /// Everything in one process.
    pub(crate) fn new() -> Self {
        let secret = |kind: &str| {
            format!(
                "sp_{kind}_{:032x}{:032x}",
                rand::random::<u128>(),
                rand::random::<u128>()
            )
        };
        Self {
            folder: TempDir::new().unwrap(),
            key: secret("key"),
            token: secret("tok"),
            // Events in tests have fixed times, which get older.
            variables: vec![("SPINDLE_INGEST__MAX_EVENT_AGE".to_owned(), "0s".to_owned())],
            backing: None,
        }
    }

    /// Ingest, processor and query over a real broker and a ClickHouse server, with tables but nothing in them.
    pub(crate) async fn distributed() -> Self {
        let setup = Self::unmigrated().await;
        setup.migrate();
        setup
    }

    /// The same without tables.
    pub(crate) async fn unmigrated() -> Self {
        let backing = Backing::new().await;
        let mut setup = Self::new();
        setup.variables.extend(backing.variables());
        setup.backing = Some(backing);
        setup
    }

    /// Makes the tables, as an operator does.
    pub(crate) fn migrate(&self) -> String {
        let done = Command::new(env!("CARGO_BIN_EXE_spindle"))
            .arg("migrate")
            .current_dir(self.folder.path())
            .envs(self.environment())
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap()
    }

    /// Sets a setting by its key.
    pub(crate) fn with(mut self, key: &str, value: &str) -> Self {
        self.variables.push((
            format!("SPINDLE_{}", key.replace('.', "__").to_uppercase()),
            value.to_owned(),
        ));
        self
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// What all processes on this folder logged so far.
    pub(crate) fn logged(&self) -> String {
        let read = |role| fs::read_to_string(self.folder.path().join(format!("{role}.log")));
        let logs = ["serve", "ingest", "processor", "query"].map(read);
        logs.into_iter().map(Result::unwrap_or_default).collect()
    }

    fn environment(&self) -> Vec<(&str, &str)> {
        let given = [
            ("SPINDLE_API_KEY", self.key.as_str()),
            ("SPINDLE_ADMIN_TOKEN", self.token.as_str()),
        ];
        let variables = self.variables.iter();
        let variables = variables.map(|(name, value)| (name.as_str(), value.as_str()));
        given.into_iter().chain(variables).collect()
    }

    /// How a process of this role is started. Each has a folder of its own under the data folder, but for `serve`.
    pub(crate) fn process(&self, role: &'static str) -> Start<'_> {
        let data = match role {
            "serve" => self.data(),
            role => self.data().join(role),
        };
        let mut arguments: Vec<OsString> = ["--listen", "127.0.0.1:0", "--data-dir"]
            .map(OsString::from)
            .into();
        arguments.push(data.into());
        Start {
            role,
            arguments,
            variables: self.environment(),
            folder: self.folder.path().to_owned(),
        }
    }

    pub(crate) fn spawn(&self) -> Child {
        self.process("serve").spawn()
    }

    /// Starts a server and waits until it serves; not yet until it is ready.
    pub(crate) async fn start(&self) -> Server {
        let (processes, front) = match &self.backing {
            None => (vec![self.process("serve").listening().await], None),
            Some(_) => {
                let ingest = self.process("ingest").listening().await;
                let processor = self.process("processor").listening().await;
                let query = self.process("query").listening().await;
                let tiers = Tiers {
                    ingest: ingest.url.clone(),
                    processor: processor.url.clone(),
                    query: query.url.clone(),
                };
                let front = Front::before(tiers).await;
                (vec![ingest, processor, query], Some(front))
            }
        };
        let url = match &front {
            Some(front) => front.url.clone(),
            None => processes[0].url.clone(),
        };
        Server {
            processes,
            _front: front,
            url,
            key: self.key.clone(),
            token: self.token.clone(),
            client: Client::new(),
        }
    }

    /// Starts one process of one tier; not yet ready.
    pub(crate) async fn start_tier(&self, role: &'static str) -> Server {
        Server::of(self.process(role).listening().await, self)
    }

    /// Starts a server and waits until it is ready.
    pub(crate) async fn start_ready(&self) -> Server {
        let server = self.start().await;
        server.ready().await;
        server
    }
}

/// A running server: one process, or one of each tier behind one address. Killed when dropped.
pub(crate) struct Server {
    pub(crate) processes: Vec<Process>,
    _front: Option<Front>,
    pub(crate) url: String,
    pub(crate) key: String,
    pub(crate) token: String,
    pub(crate) client: Client,
}

impl Server {
    /// One process of one tier.
    pub(crate) fn of(process: Process, setup: &Setup) -> Self {
        Self {
            url: process.url.clone(),
            processes: vec![process],
            _front: None,
            key: setup.key.clone(),
            token: setup.token.clone(),
            client: Client::new(),
        }
    }

    /// `kill -9`, as the power would.
    pub(crate) fn kill(&mut self) {
        self.processes.iter_mut().for_each(Process::kill);
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        for process in &self.processes {
            kill(process.pid(), signal);
        }
    }

    /// Waits for the end of every process and gives the exit code, if they agree on one.
    pub(crate) async fn ended(&mut self, within: Duration) -> Option<i32> {
        let mut codes = Vec::new();
        for process in &mut self.processes {
            codes.push(process.ended(within).await);
        }
        codes.dedup();
        assert_eq!(codes.len(), 1, "{codes:?}");
        codes[0]
    }

    /// The engine's process id, by its parent.
    pub(crate) fn engine_pid(&self) -> Option<u32> {
        let parent = self.processes[0].pid().to_string();
        fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
            (fields[1] == parent && fields[0] != "Z").then_some(pid)
        })
    }

    pub(crate) async fn ready(&self) {
        self.until("the server is ready", READY_WITHIN, async || {
            let answer = self
                .client
                .get(format!("{}/health/ready", self.url))
                .send()
                .await;
            answer
                .is_ok_and(|answer| answer.status() == StatusCode::OK)
                .then_some(())
        })
        .await;
    }

    /// Returns when every process receives the control messages of the others.
    pub(crate) async fn connected(&self) {
        for process in &self.processes {
            self.until(
                "every process receives control messages",
                READY_WITHIN,
                async || {
                    let text = self.metrics_of(&process.url).await;
                    let silent = sum_of(&text, "spindle_control_watermark_age_seconds");
                    (silent < 60.0).then_some(())
                },
            )
            .await;
        }
    }

    /// Returns when every process knows the last change: at once in one process.
    pub(crate) async fn informed(&self) {
        if self.processes.len() > 1 {
            self.connected().await;
            tokio::time::sleep(KNOWN_WITHIN).await;
        }
    }

    /// Asks until there is something, or fails saying what was waited for. Pauses three times as long as the answer
    /// took, so that questions leave the machine to what they wait for.
    pub(crate) async fn until<T>(
        &self,
        what: &str,
        within: Duration,
        ask: impl AsyncFn() -> Option<T>,
    ) -> T {
        let deadline = Instant::now() + within;
        loop {
            let asked = Instant::now();
            if let Some(found) = ask().await {
                return found;
            }
            assert!(
                Instant::now() < deadline,
                "waited {within:?} until {what}:\n{}",
                self.logged()
            );
            tokio::time::sleep((3 * asked.elapsed()).clamp(ASK_AGAIN, 25 * ASK_AGAIN)).await;
        }
    }

    fn logged(&self) -> String {
        let words = self.processes.iter().map(Process::last_words);
        words.collect::<Vec<_>>().join("\n")
    }

    pub(crate) async fn report(&self, events: &[Value]) -> reqwest::Result<reqwest::Response> {
        self.report_as(&self.key, events).await
    }

    pub(crate) async fn report_as(
        &self,
        key: &str,
        events: &[Value],
    ) -> reqwest::Result<reqwest::Response> {
        let request = self
            .client
            .post(format!("{}/api/report", self.url))
            .bearer_auth(key);
        request
            .json(&json!({ "events": events }))
            .timeout(Duration::from_secs(20))
            .send()
            .await
    }

    /// GET as the bearer of a secret; status and body, `null` where it is not JSON.
    pub(crate) async fn get_as(&self, secret: &str, path: &str) -> (StatusCode, Value) {
        self.ask(Method::GET, secret, path, None).await
    }

    pub(crate) async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.get_as(&self.key, path).await
    }

    pub(crate) async fn ask(
        &self,
        method: Method,
        secret: &str,
        path: &str,
        body: Option<Value>,
    ) -> (StatusCode, Value) {
        let mut request = self
            .client
            .request(method, format!("{}{path}", self.url))
            .bearer_auth(secret);
        if let Some(body) = body {
            request = request.json(&body);
        }
        match request.timeout(Duration::from_secs(30)).send().await {
            Ok(answer) => (answer.status(), answer.json().await.unwrap_or_default()),
            Err(_) => (StatusCode::GATEWAY_TIMEOUT, Value::Null),
        }
    }

    /// Every run of an app, page by page.
    pub(crate) async fn all_runs(&self, app: &str) -> Option<Vec<Value>> {
        let mut runs = Vec::new();
        let mut cursor = String::new();
        loop {
            let (status, page) = self
                .get(&format!("/api/run/?app_id={app}&limit=500{cursor}"))
                .await;
            if status != StatusCode::OK {
                return None;
            }
            runs.extend(page["data"].as_array().unwrap().iter().cloned());
            match page["next_cursor"].as_str() {
                Some(next) => {
                    cursor = format!(
                        "&cursor={}",
                        percent_encoding::utf8_percent_encode(
                            next,
                            percent_encoding::NON_ALPHANUMERIC
                        )
                    )
                }
                None => return Some(runs),
            }
        }
    }

    /// One value of `/metrics`, labels summed.
    pub(crate) async fn metric(&self, name: &str) -> f64 {
        sum_of(&self.metrics().await, name)
    }

    pub(crate) async fn metrics(&self) -> String {
        self.metrics_of(&self.url).await
    }

    async fn metrics_of(&self, url: &str) -> String {
        self.client
            .get(format!("{url}/metrics"))
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap()
    }

    /// Runs a command of the binary against this server.
    pub(crate) fn command(&self, arguments: &[&str]) -> std::process::Output {
        Command::new(env!("CARGO_BIN_EXE_spindle"))
            .args(arguments)
            .env("SPINDLE_URL", &self.url)
            .env("SPINDLE_ADMIN_TOKEN", &self.token)
            .output()
            .unwrap()
    }
}

/// Sends a signal to one process.
pub(crate) fn kill(pid: u32, signal: rustix::process::Signal) {
    if let Some(pid) = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
    {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// An event in the documented form, a number of milliseconds after a fixed instant of today.
pub(crate) fn event(app: &str, run: &str, name: &str, ms: i64) -> Value {
    let at = chrono::Utc::now()
        .date_naive()
        .and_time(chrono::NaiveTime::MIN)
        .and_utc()
        + chrono::Duration::milliseconds(ms);
    json!({
        "name": name, "app_id": app, "run_id": run, "type": "agent",
        "timestamp": at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
    })
}

/// One value of an answer of `/metrics`, labels summed.
fn sum_of(metrics: &str, name: &str) -> f64 {
    let lines = metrics
        .lines()
        .filter(|line| line.starts_with(name) && line[name.len()..].starts_with([' ', '{']));
    lines
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
        .sum()
}
