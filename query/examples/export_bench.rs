//! How fast exports are, and what they cost in memory: `cargo run --release -p query --example export_bench [runs] [folder] [saved] [moment]`.
//!
//! Fills a table in the folder (default `target/export-bench`, kept, so a second run starts at once) with runs of thirty
//! days, or all of one millisecond with `moment`, every `saved`th of them (100) saved and with its events, and prints for each format the time, the bytes and the
//! resident memory of this process, which does what the server does but for the socket. The engine is a process of its
//! own.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Request;
use futures::StreamExt;
use prometheus::Registry;
use query::QueryState;
use schemas::credential::Scope;
use schemas::ids::ProjectId;
use store::Store;
use store::credentials::{Credentials, NewKey};
use store::engine::{Engine, EngineConfig, Program};
use store::metrics::Metrics;
use store::prices::Prices;
use store::rows::{CostStatus, EventRow, RunRow, RunStatus};
use tower::ServiceExt;

type Failure = Box<dyn std::error::Error>;

/// 2026-11-20T10:00:00Z.
const NEWEST_MS: i64 = 1_795_168_800_000;
const DAYS_MS: i64 = 30 * 86_400_000;
const RUNS_PER_INSERT: usize = 50_000;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "engine") {
        store::engine::run()
    }
    let runs = arguments
        .first()
        .map_or(Ok(1_000_000), |runs| runs.parse())?;
    let folder = arguments
        .get(1)
        .map_or("target/export-bench", String::as_str);
    let saved_every = arguments.get(2).map_or(Ok(100), |every| every.parse())?;
    let span_ms = match arguments.get(3).map(String::as_str) {
        Some("moment") => 0,
        _ => DAYS_MS,
    };
    let metrics = Metrics::register(&Registry::new())?;
    let program = Program {
        path: std::env::current_exe()?,
        arguments: vec!["engine".into()],
    };
    let engine = Engine::start(
        EngineConfig::new(program, PathBuf::from(folder)),
        metrics.clone(),
    )?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let store = Store::connect(engine.store_config("export_bench"), metrics)?;
        while store.ping().await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        store.migrate().await?;
        let credentials = Credentials::new(store.clone());
        credentials
            .put_project(&ProjectId::new("default"), "app", &[])
            .await?;
        let key = NewKey {
            project: ProjectId::new("default"),
            name: String::new(),
            scopes: vec![Scope::Read],
            secret: None,
        };
        let secret = credentials
            .create_key(key)
            .await?
            .secret
            .reveal()
            .to_owned();
        let state = QueryState::new(
            store.clone(),
            credentials,
            Prices::new(store.clone())?,
            &Registry::new(),
        )?;
        fill(&store, runs, (saved_every, span_ms)).await?;
        for path in [
            "/api/run/export?format=jsonl",
            "/api/run/export?format=csv",
            "/api/run/export?format=parquet",
            "/api/run/export?format=jsonl&model=model-3",
            "/api/run/export?format=jsonl&saved=true",
            "/api/dataset/export?format=jsonl",
            "/api/dataset/export?format=openai-jsonl",
        ] {
            export(&state, &secret, path).await?;
        }
        Ok(())
    })
}

async fn export(state: &QueryState, secret: &str, path: &str) -> Result<(), Failure> {
    // The high-water mark of resident memory begins anew.
    std::fs::write("/proc/self/clear_refs", "5")?;
    let started = Instant::now();
    let request = Request::builder()
        .uri(path)
        .header("authorization", format!("Bearer {secret}"))
        .body(Body::empty())?;
    let response = query::router(state.clone()).oneshot(request).await?;
    let status = response.status();
    let first_ms = started.elapsed().as_millis();
    let mut body = response.into_body().into_data_stream();
    let (mut bytes, mut lines) = (0, 0);
    while let Some(piece) = body.next().await {
        let piece = piece?;
        bytes += piece.len();
        lines += piece.iter().filter(|byte| **byte == b'\n').count();
    }
    let seconds = started.elapsed().as_secs_f64();
    let resident = std::fs::read_to_string("/proc/self/status")?;
    let peak = resident.lines().find(|line| line.starts_with("VmHWM"));
    println!(
        "{path}: {status}, {seconds:.1} s, first bytes after {first_ms} ms, {} MB, {lines} newlines, {}",
        bytes >> 20,
        peak.unwrap_or_default()
    );
    Ok(())
}

async fn fill(store: &Store, runs: usize, of: (usize, i64)) -> Result<(), Failure> {
    let there: u64 = store
        .bounded_query("SELECT count() FROM runs")
        .one()
        .await?;
    if there >= runs as u64 {
        return Ok(());
    }
    let numbers: Vec<usize> = (0..runs).collect();
    for numbers in numbers.chunks(RUNS_PER_INSERT) {
        let texts: Vec<Texts> = numbers
            .iter()
            .map(|number| Texts::of(*number, runs, of))
            .collect();
        store.insert_runs(texts.iter().map(Texts::row)).await?;
        let saved = texts.iter().filter(|texts| texts.is_saved);
        store.insert_events(saved.flat_map(Texts::events)).await?;
    }
    Ok(())
}

/// The texts of one run, which its row borrows.
struct Texts {
    number: usize,
    is_saved: bool,
    started_at: i64,
    run_id: String,
    root: String,
    user: String,
    model: String,
    app: String,
    input: String,
    output: String,
    start: String,
    end: String,
}

impl Texts {
    fn of(number: usize, runs: usize, (saved_every, span_ms): (usize, i64)) -> Self {
        let started_at =
            NEWEST_MS - span_ms + (span_ms as f64 / runs as f64 * number as f64) as i64;
        let mixed = (number as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let run_id = format!("{mixed:016x}-{number:08}");
        let input = format!(
            "[{{\"role\":\"user\",\"content\":\"please tell me about {mixed} and what it means for the next {} days, with every source\"}}]",
            mixed % 1000
        );
        let output = format!(
            "the answer to your question is {mixed:x} because of the long history of such things"
        );
        let at = schemas::timestamp::to_text(started_at);
        let ended = schemas::timestamp::to_text(started_at + 1500);
        Self {
            start: format!(
                "{{\"name\":\"llm_start\",\"run_id\":\"{run_id}\",\"timestamp\":\"{at}\",\"type\":\"llm\",\"input\":{input},\"metadata\":{{\"env\":\"prod\"}}}}"
            ),
            end: format!(
                "{{\"name\":\"llm_end\",\"run_id\":\"{run_id}\",\"timestamp\":\"{ended}\",\"output\":{{\"role\":\"assistant\",\"content\":\"{output}\"}}}}"
            ),
            number,
            is_saved: number.is_multiple_of(saved_every),
            started_at,
            root: format!("{:016x}-root", mixed >> 2),
            user: format!("user{}@example.com", mixed % 100_000),
            model: format!("model-{}", mixed % 12),
            app: format!("app-{}", mixed % 20),
            run_id,
            input,
            output,
        }
    }

    fn row(&self) -> RunRow<'_> {
        RunRow {
            project_id: "default",
            app_id: &self.app,
            started_at: self.started_at,
            run_id: &self.run_id,
            version: 1,
            is_deleted: 0,
            parent_run_id: &self.root,
            root_run_id: &self.root,
            name: "chat",
            r#type: "llm",
            status: RunStatus::Success,
            agent: "planner",
            user_email: &self.user,
            model: &self.model,
            tags: vec!["eu", "prod"],
            thread_id: "",
            ended_at: Some(self.started_at + 1500),
            latency_ms: Some(1500),
            prompt_tokens: Some(self.number as u64 % 4000),
            completion_tokens: Some(self.number as u64 % 700),
            total_tokens: Some(self.number as u64 % 4700),
            cached_tokens: None,
            reasoning_tokens: None,
            cost: 1_234_567_890_123 * (self.number as i128 % 997),
            cost_status: CostStatus::Priced,
            cost_estimated: 0,
            total_cost: 1_234_567_890_123 * (self.number as i128 % 997),
            total_prompt_tokens: 0,
            total_completion_tokens: 0,
            total_tokens_with_children: self.number as u64 % 4700,
            llm_calls: 1,
            error_count: 0,
            error_name: "",
            error_message: "",
            saved: u8::from(self.is_saved),
            feedback_rating: "",
            feedback_comment: "",
            feedback_at: None,
            input_preview: &self.input,
            output_preview: &self.output,
            metadata: vec![("env", "prod"), ("user_email", &self.user)],
            first_event_at: self.started_at,
            last_event_at: self.started_at + 1500,
            updated_at: self.started_at + 2000,
            state: b"",
        }
    }

    fn events(&self) -> [EventRow<'_>; 2] {
        [(&self.start, 0, 0), (&self.end, 1, 1500)].map(|(payload, part, after_ms)| EventRow {
            project_id: "default",
            app_id: &self.app,
            timestamp: self.started_at + after_ms,
            run_id: &self.run_id,
            event_id: self.number as u128 * 2 + part,
            name: "llm",
            payload: payload.as_bytes(),
            received_at: self.started_at + after_ms,
            stored_at: self.started_at + after_ms,
        })
    }
}
