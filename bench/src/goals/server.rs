//! A server of its own for one measurement: what one server has left to merge must not slow the next.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use hyper::StatusCode;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::connection::{Connection, Target};
use crate::engine::temporary_folder;
use crate::process::{PeakMemory, cpu_seconds, resident_mib};

/// Longest start, the making of the tables included.
const READY_WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

/// A running `spindle serve` with its data in a temporary folder; killed when dropped.
pub(super) struct Server {
    process: Child,
    pub(super) url: String,
    pub(super) key: String,
    token: String,
    engine_id: u32,
    /// Removed after the process has ended.
    _folder: TempDir,
}

/// CPU time since the start, seconds.
#[derive(Clone, Copy)]
pub(super) struct Cpu {
    pub(super) server: f64,
    pub(super) engine: f64,
}

impl Cpu {
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            server: self.server - before.server,
            engine: self.engine - before.engine,
        }
    }
}

impl Server {
    /// Starts `program` with its data below `folder`, and waits until it is ready.
    pub(super) async fn start(program: &Path, folder: Option<PathBuf>) -> anyhow::Result<Self> {
        let folder = temporary_folder(folder)?;
        let data = folder.path().join("data");
        let secret = |prefix| format!("{prefix}_{}", hex::encode(rand::random::<[u8; 24]>()));
        let (key, token) = (secret("sp_key"), secret("sp_tok"));
        let log = std::fs::File::create(folder.path().join("log"))?;
        let mut process = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(&data)
            .env("SPINDLE_API_KEY", &key)
            .env("SPINDLE_ADMIN_TOKEN", &token)
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{} does not start", program.display()))?;
        let started = Instant::now();
        let url = loop {
            let address = std::fs::read_to_string(data.join("address")).unwrap_or_default();
            if !address.is_empty() && is_ready(address.trim(), &token).await {
                break address.trim().to_owned();
            }
            let ended = process.try_wait()?;
            ensure!(
                ended.is_none() && started.elapsed() < READY_WITHIN,
                "the server is not ready: {}",
                std::fs::read_to_string(folder.path().join("log")).unwrap_or_default()
            );
            tokio::time::sleep(POLL).await;
        };
        let engine_id = process.id().and_then(child_of);
        Ok(Self {
            process,
            url,
            key,
            token,
            engine_id: engine_id.context("the server has no engine")?,
            _folder: folder,
        })
    }

    pub(super) fn target(&self) -> anyhow::Result<Target> {
        Target::new(&self.url, &self.key)
    }

    /// As an operator: counted apart from the key where bounds are for each credential.
    pub(super) fn operator_target(&self) -> anyhow::Result<Target> {
        Target::new(&self.url, &self.token)
    }

    fn ids(&self) -> [Option<u32>; 2] {
        [self.process.id(), Some(self.engine_id)]
    }

    pub(super) fn cpu(&self) -> Cpu {
        let [server, engine] = self.ids().map(|id| id.map_or(0.0, cpu_seconds));
        Cpu { server, engine }
    }

    /// Resident memory of server and engine together.
    pub(super) fn resident_mib(&self) -> u64 {
        self.ids().into_iter().flatten().map(resident_mib).sum()
    }

    pub(super) fn watch_memory(&self) -> PeakMemory {
        PeakMemory::watch(self.ids())
    }
}

async fn is_ready(url: &str, token: &str) -> bool {
    let answer = async {
        let target = Target::new(url, token)?;
        Connection::default().get(&target, "/health/ready").await
    };
    answer
        .await
        .is_ok_and(|answer| answer.status == StatusCode::OK)
}

/// The process that `parent` has started.
fn child_of(parent: u32) -> Option<u32> {
    let children = format!("/proc/{parent}/task");
    std::fs::read_dir(children)
        .ok()?
        .flatten()
        .find_map(|task| {
            let text = std::fs::read_to_string(task.path().join("children")).ok()?;
            text.split_whitespace().next()?.parse().ok()
        })
}
