//! Exports: time, bytes and resident memory of each format.
//!
//! This process does what the server does except for the socket; the engine is a separate process, so the resident
//! memory is the export's.

use std::path::PathBuf;
use std::time::Instant;

use axum::body::Body;
use axum::http::Request;
use clap::Args;
use futures::StreamExt;
use prometheus::Registry;
use query::QueryState;
use schemas::credential::Scope;
use schemas::fold::{CostStatus, RunStatus};
use schemas::ids::ProjectId;
use store::Store;
use store::credentials::{Credentials, NewKey};
use store::prices::Prices;
use store::tables::rows::{EventRow, RunRow};
use tower::ServiceExt;

use crate::engine::BenchEngine;
use crate::process;

#[derive(Args)]
pub(crate) struct ExportArgs {
    /// Runs in the table
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    runs: usize,
    /// Folder of the engine; kept, so that the next measurement starts at once
    #[arg(long, value_name = "DIR", default_value = "target/export-bench")]
    folder: PathBuf,
    /// One run in so many is saved and has its events stored
    #[arg(long, value_name = "N", default_value_t = 100)]
    saved_every: usize,
    /// All runs start in one millisecond instead of over thirty days
    #[arg(long)]
    same_time: bool,
}

/// 2026-11-20T10:00:00Z.
const NEWEST_MS: i64 = 1_795_168_800_000;
const DAYS_MS: i64 = 30 * 86_400_000;
const RUNS_PER_INSERT: usize = 50_000;

/// Fills the table if it is empty, and prints a line for each export.
pub(crate) async fn run(args: ExportArgs) -> anyhow::Result<()> {
    let BenchEngine {
        engine: _engine,
        store,
        ..
    } = BenchEngine::start(&args.folder).await?;
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
    fill(&store, &args).await?;
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
}

async fn export(state: &QueryState, secret: &str, path: &str) -> anyhow::Result<()> {
    process::reset_peak()?;
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
    println!(
        "{path}: {status}, {seconds:.1} s, first bytes after {first_ms} ms, {} MB, {lines} newlines, peak resident {} MiB",
        bytes >> 20,
        process::peak_resident_mib()
    );
    Ok(())
}

async fn fill(store: &Store, args: &ExportArgs) -> anyhow::Result<()> {
    let stored: u64 = store
        .bounded_query("SELECT count() FROM runs")
        .one()
        .await?;
    if stored >= args.runs as u64 {
        return Ok(());
    }
    let numbers: Vec<usize> = (0..args.runs).collect();
    for numbers in numbers.chunks(RUNS_PER_INSERT) {
        let texts: Vec<Texts> = numbers
            .iter()
            .map(|number| Texts::of(*number, args))
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
    fn of(number: usize, args: &ExportArgs) -> Self {
        let span_ms = if args.same_time { 0 } else { DAYS_MS };
        let started_at =
            NEWEST_MS - span_ms + (span_ms as f64 / args.runs as f64 * number as f64) as i64;
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
            is_saved: number.is_multiple_of(args.saved_every),
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
            ttft_ms: None,
            cached_tokens: None,
            reasoning_tokens: None,
            cost: 1_234_567_890_123 * (self.number as i128 % 997),
            cost_status: CostStatus::Priced,
            cost_estimated: 0,
            counted_run_id: "",
            enclosing_call: "",
            turn_at: 0,
            call_links: &[],
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
            calls: 1,
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
