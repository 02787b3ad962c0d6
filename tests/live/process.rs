//! One process of the real binary.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::harness::READY_WITHIN;

/// What a process is started with.
pub(crate) struct Start<'a> {
    /// The command: `serve`, or that of a tier.
    pub(crate) role: &'static str,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) variables: Vec<(&'a str, &'a str)>,
    /// Where it is started and its log is: one file for each role, kept over restarts.
    pub(crate) folder: PathBuf,
}

impl Start<'_> {
    pub(crate) fn log(&self) -> PathBuf {
        self.folder.join(format!("{}.log", self.role))
    }

    pub(crate) fn spawn(&self) -> Child {
        let mut log = fs::OpenOptions::new();
        let log = log.create(true).append(true).open(self.log()).unwrap();
        Command::new(env!("CARGO_BIN_EXE_spindle"))
            .arg(self.role)
            .args(&self.arguments)
            .current_dir(&self.folder)
            .envs(self.variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap()
    }

    /// Starts it and waits until it listens; not yet until it is ready.
    pub(crate) async fn listening(&self) -> Process {
        let before = read(&self.log()).len();
        let child = self.spawn();
        let mut process = Process {
            child,
            role: self.role,
            url: String::new(),
            log: self.log(),
        };
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            if let Some(status) = process.child.try_wait().unwrap() {
                panic!(
                    "{} ended with {status}:\n{}",
                    self.role,
                    process.last_words()
                );
            }
            let logged = read(&self.log());
            let line = logged[before..]
                .lines()
                .find(|line| line.contains(": listening "));
            let address = line.and_then(|line| line.split("http.address=").nth(1));
            if let Some(address) = address.and_then(|rest| rest.split_whitespace().next()) {
                process.url = format!("http://{address}");
                return process;
            }
            assert!(
                Instant::now() < deadline,
                "{} does not listen:\n{}",
                self.role,
                process.last_words()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// A running process. Killed when dropped.
pub(crate) struct Process {
    pub(crate) child: Child,
    pub(crate) role: &'static str,
    pub(crate) url: String,
    log: PathBuf,
}

impl Process {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// `kill -9`, as the power would.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for its end and gives its exit code.
    pub(crate) async fn ended(&mut self, within: Duration) -> Option<i32> {
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            let words = || self.last_words();
            assert!(
                Instant::now() < deadline,
                "{} does not end:\n{}",
                self.role,
                words()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The end of what it and those before it logged.
    pub(crate) fn last_words(&self) -> String {
        let text = read(&self.log);
        let lines: Vec<&str> = text.lines().rev().take(60).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("the last lines of {}:\n{}", self.role, self.last_words());
        }
    }
}

fn read(path: &std::path::Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}
