//! Starts the real binary and talks to it.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A debug build on two busy cores needs this long at worst; a release build needs about one second.
pub(crate) const READY_WITHIN: Duration = Duration::from_secs(60);
/// Time from an answer to its rows at worst, after restarts of everything.
pub(crate) const VISIBLE_WITHIN: Duration = Duration::from_secs(90);

/// What a server is started with. The folder outlives the processes that use it.
pub(crate) struct Setup {
    pub(crate) folder: TempDir,
    pub(crate) key: String,
    pub(crate) token: String,
    pub(crate) variables: Vec<(String, String)>,
}

impl Setup {
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
            variables: Vec::new(),
        }
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

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }

    /// What all servers on this folder logged so far.
    pub(crate) fn logged(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    pub(crate) fn spawn(&self) -> Child {
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log_path())
            .unwrap();
        Command::new(env!("CARGO_BIN_EXE_spindle"))
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(self.data())
            .current_dir(self.folder.path())
            .env("SPINDLE_API_KEY", &self.key)
            .env("SPINDLE_ADMIN_TOKEN", &self.token)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap()
    }

    /// Starts a server and waits until it serves; not yet until it is ready.
    pub(crate) async fn start(&self) -> Server {
        // A server that was killed left its address behind.
        let address = self.data().join("address");
        let _ = fs::remove_file(&address);
        let mut child = self.spawn();
        let deadline = Instant::now() + READY_WITHIN;
        let url = loop {
            if let Some(status) = child.try_wait().unwrap() {
                panic!("the server ended with {status}:\n{}", self.logged());
            }
            if let Ok(url) = fs::read_to_string(&address) {
                break url.trim().to_owned();
            }
            assert!(
                Instant::now() < deadline,
                "the server does not serve:\n{}",
                self.logged()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        Server {
            child,
            url,
            key: self.key.clone(),
            token: self.token.clone(),
            client: Client::new(),
            log: self.log_path(),
        }
    }

    /// Starts a server and waits until it is ready.
    pub(crate) async fn start_ready(&self) -> Server {
        let server = self.start().await;
        server.ready().await;
        server
    }
}

/// A running server. Killed when dropped.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) url: String,
    pub(crate) key: String,
    pub(crate) token: String,
    pub(crate) client: Client,
    log: PathBuf,
}

impl Server {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// `kill -9`, as the power would.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        kill(self.pid(), signal);
    }

    /// Waits for the end of the process and gives its exit code.
    pub(crate) async fn ended(&mut self, within: Duration) -> Option<i32> {
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(
                Instant::now() < deadline,
                "the server does not end:\n{}",
                self.logged()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The engine's process id, by its parent.
    pub(crate) fn engine_pid(&self) -> Option<u32> {
        let parent = self.pid().to_string();
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

    /// Asks until there is something, or fails saying what was waited for.
    pub(crate) async fn until<T>(
        &self,
        what: &str,
        within: Duration,
        ask: impl AsyncFn() -> Option<T>,
    ) -> T {
        let deadline = Instant::now() + within;
        loop {
            if let Some(found) = ask().await {
                return found;
            }
            assert!(
                Instant::now() < deadline,
                "waited {within:?} until {what}:\n{}",
                self.logged()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn logged(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(60).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
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
        let text = self.metrics().await;
        let lines = text
            .lines()
            .filter(|line| line.starts_with(name) && line[name.len()..].starts_with([' ', '{']));
        lines
            .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
            .sum()
    }

    pub(crate) async fn metrics(&self) -> String {
        self.client
            .get(format!("{}/metrics", self.url))
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

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("the last lines of the server:\n{}", self.logged());
        }
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
