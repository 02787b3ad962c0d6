//! How fast the run list is at ten million runs: `cargo run --release -p store --example list_bench [runs] [folder]`.
//!
//! Fills a table in the folder (default `target/list-bench`, kept, so a second run starts at once) with runs of
//! thirty days in twenty apps, and prints the median and the 95th percentile of pages by filter.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use prometheus::Registry;
use schemas::cursor::Cursor;
use schemas::filter::RunQuery;
use store::engine::{Engine, EngineConfig, Program};
use store::filter_sql::Projects;
use store::metrics::Metrics;
use store::{Store, StoreError};

type Failure = Box<dyn std::error::Error>;

/// Pages per question, each with other values.
const ROUNDS: usize = 60;
/// Runs written by one statement: about what a busy day brings.
const RUNS_PER_INSERT: u64 = 250_000;

const FILL: &str = "INSERT INTO runs (project_id, app_id, started_at, run_id, version, is_deleted, parent_run_id, root_run_id, name, \
  type, status, agent, user_email, model, tags, thread_id, ended_at, latency_ms, prompt_tokens, completion_tokens, total_tokens, \
  cost, cost_status, total_cost, total_tokens_with_children, llm_calls, error_count, error_name, error_message, saved, \
  feedback_rating, input_preview, output_preview, metadata, first_event_at, last_event_at, updated_at, state) \
SELECT 'default', concat('app-', toString(cityHash64(number, 1) % 20)), \
  fromUnixTimestamp64Milli(NOW - toInt64(number * STEP), 'UTC') AS start, \
  lower(hex(sipHash128(number))), 1000000000 - number, 0, \
  if(number % 4 = 0, '', lower(hex(sipHash128(intDiv(number, 4) * 4)))), lower(hex(sipHash128(intDiv(number, 4) * 4))), \
  arrayElement(['chat', 'plan', 'search', 'summarise', 'fetch', 'grade'], 1 + cityHash64(number, 2) % 6), \
  arrayElement(['agent', 'llm', 'tool', 'llm'], 1 + number % 4) AS kind, \
  multiIf(cityHash64(number, 3) % 1000 < 30, 'error', cityHash64(number, 3) % 1000 < 35, 'started', 'success') AS stands, \
  arrayElement(['planner', 'researcher', 'writer', 'critic', 'support', 'sales'], 1 + cityHash64(intDiv(number, 4), 4) % 6), \
  concat('user', toString(cityHash64(intDiv(number, 4), 5) % 100000), '@example.com') AS user, \
  if(kind = 'llm', concat('model-', toString(cityHash64(number, 6) % 12)), ''), \
  multiIf(cityHash64(number, 7) % 200000 = 0, ['rare'], \
    arrayElement([['prod'], ['eu', 'prod'], ['staging'], ['beta', 'us'], []], 1 + cityHash64(number, 7) % 5)), \
  if(number % 3 = 0, concat('thread-', toString(cityHash64(intDiv(number, 12), 8) % 1000000)), ''), \
  if(stands = 'started', NULL, start + toIntervalMillisecond(length_ms)), if(stands = 'started', NULL, length_ms), \
  if(kind = 'llm', cityHash64(number, 9) % 4000, NULL) AS prompt, if(kind = 'llm', cityHash64(number, 10) % 1000, NULL) AS completion, \
  prompt + completion, toDecimal128(if(kind = 'llm', exp(-6 + 1.2 * normal), 0), 9) AS own, if(kind = 'llm', 'priced', 'not_llm'), \
  if(kind = 'llm', own, toDecimal128(exp(-5 + 1.2 * normal), 9)), coalesce(prompt + completion, 0), 1, stands = 'error', \
  if(stands = 'error', 'RateLimitError', ''), if(stands = 'error', 'the model answered 429: too many requests in this minute', ''), \
  cityHash64(number, 11) % 1000 = 0, multiIf(cityHash64(number, 12) % 100 = 0, 'positive', cityHash64(number, 12) % 100 = 1, 'negative', ''), \
  concat('[{\"role\":\"user\",\"content\":\"please tell me about ', toString(cityHash64(number, 13)), ' and what it means for the next ', \
    toString(cityHash64(number, 14) % 1000), ' days, with every source you have used\"}]'), \
  concat('the answer to your question is ', toString(cityHash64(number, 15)), ' because of the long history of such things ', \
    hex(cityHash64(number, 16))), \
  map('user_email', user, 'env', 'prod'), start, start + toIntervalMillisecond(length_ms), start, hex(sipHash128(number, 1)) \
FROM (SELECT number, \
  toInt64(exp(7 + 1.3 * sqrt(-2 * log((cityHash64(number, 20) % 1000000 + 1) / 1000001)) * cos(6.2831853 * (cityHash64(number, 21) % 1000000) / 1000000))) AS length_ms, \
  sqrt(-2 * log((cityHash64(number, 22) % 1000000 + 1) / 1000001)) * cos(6.2831853 * (cityHash64(number, 23) % 1000000) / 1000000) AS normal \
  FROM numbers(FIRST, COUNT))";

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "engine") {
        store::engine::run()
    }
    let runs = arguments
        .first()
        .map_or(Ok(10_000_000), |runs| runs.parse())?;
    let folder = PathBuf::from(arguments.get(1).map_or("target/list-bench", String::as_str));
    let metrics = Metrics::register(&Registry::new())?;
    let program = Program {
        path: std::env::current_exe()?,
        arguments: vec!["engine".into()],
    };
    let engine = Engine::start(EngineConfig::new(program, folder), metrics.clone())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let config = engine.store_config("list_bench");
        let client = clickhouse::Client::default()
            .with_url(&config.url)
            .with_user(&config.user)
            .with_password(config.password.reveal())
            .with_database("list_bench");
        let store = Store::connect(config, metrics)?;
        while store.ping().await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        store.migrate().await?;
        let now_ms = fill(&client, runs).await?;
        measure(&store, now_ms).await?;
        Ok::<(), Failure>(())
    })
}

/// Fills the table if it is empty; returns the time of the newest run.
async fn fill(client: &clickhouse::Client, runs: u64) -> Result<i64, Failure> {
    let newest = "SELECT toUnixTimestamp64Milli(max(started_at)) FROM runs";
    let count: u64 = client.query("SELECT count() FROM runs").fetch_one().await?;
    if count < runs {
        let started = Instant::now();
        let now_ms = chrono::Utc::now().timestamp_millis();
        let step = 30.0 * 86_400_000.0 / runs as f64;
        for first in (0..runs).step_by(RUNS_PER_INSERT as usize) {
            let sql = FILL
                .replace("NOW", &now_ms.to_string())
                .replace("STEP", &step.to_string())
                .replace("FIRST", &first.to_string())
                .replace("COUNT", &RUNS_PER_INSERT.min(runs - first).to_string());
            client
                .query_raw(&sql)
                .with_setting("max_insert_block_size", "300000")
                .execute()
                .await?;
        }
        println!(
            "{runs} runs written in {:.0} s",
            started.elapsed().as_secs_f64()
        );
    }
    Ok(client.query(newest).fetch_one().await?)
}

/// A question with a place for a number that differs from round to round.
const QUESTIONS: &[(&str, &[(&str, &str)])] = &[
    ("newest", &[]),
    ("newest, 1000 to a page", &[("limit", "1000")]),
    ("oldest", &[("sort", "started_at")]),
    ("status=error", &[("status", "error")]),
    ("status=started", &[("status", "started")]),
    ("model", &[("model", "model-{12}")]),
    ("model unknown", &[("model", "gone-{1000}")]),
    ("agent", &[("agent", "writer")]),
    ("agent unknown", &[("agent", "gone-{1000}")]),
    ("user", &[("user_email", "user{100000}@example.com")]),
    (
        "user unknown",
        &[("user_email", "gone{100000}@example.com")],
    ),
    ("tag common", &[("tags", "eu")]),
    ("tag rare", &[("tags", "rare")]),
    ("tags any of two", &[("tags", "rare,us")]),
    ("latency at least, common", &[("min_latency_s", "2.{100}")]),
    ("latency at least, rare", &[("min_latency_s", "2{100}")]),
    ("latency at most, rare", &[("max_latency_s", "0.00{10}")]),
    (
        "latency between, rare",
        &[("min_latency_s", "12.345"), ("max_latency_s", "12.345")],
    ),
    ("cost at least, common", &[("min_cost", "0.0{100}")]),
    ("cost at least, rare", &[("min_cost", "0.9{100}")]),
    (
        "cost between, rare",
        &[("min_cost", "0.0123"), ("max_cost", "0.012300{10}")],
    ),
    ("from to, three days", &[("from", "@20"), ("to", "@17")]),
    (
        "all but rare",
        &[
            ("status", "success"),
            ("agent", "writer"),
            ("tags", "eu"),
            ("min_latency_s", "1"),
            ("min_cost", "0.001"),
        ],
    ),
    (
        "all, little found",
        &[
            ("status", "error"),
            ("agent", "writer"),
            ("model", "model-{12}"),
            ("tags", "eu"),
            ("min_latency_s", "3"),
            ("min_cost", "0.01"),
        ],
    ),
    (
        "all, nothing found",
        &[
            ("status", "error"),
            ("agent", "writer"),
            ("model", "model-{12}"),
            ("tags", "rare"),
            ("min_latency_s", "3"),
            ("max_latency_s", "3.5"),
            ("min_cost", "0.01"),
            ("max_cost", "0.02"),
        ],
    ),
    (
        "user and status",
        &[
            ("user_email", "user{100000}@example.com"),
            ("status", "error"),
        ],
    ),
    ("longest", &[("sort", "-latency_s")]),
    ("dearest", &[("sort", "-total_cost")]),
    ("most tokens", &[("sort", "-total_tokens")]),
];

async fn measure(store: &Store, now_ms: i64) -> Result<(), Failure> {
    println!(
        "{:34} {:>9} {:>9} {:>9} {:>9}   in one app {:>8} {:>8}",
        "ms", "p50", "p95", "deep p50", "deep p95", "p50", "p95"
    );
    for (name, pairs) in QUESTIONS {
        let (mut first, mut deep, mut app) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let owned: Vec<(String, String)> = pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), vary(value, round, now_ms)))
                .collect();
            let mut query = query_of(&owned)?;
            first.push(page(store, &query, None, now_ms).await?);
            // A page somewhere in the depth: after a run that started long ago.
            let cursor = Cursor {
                sort: query.sort,
                fingerprint: query.fingerprint(),
                since_ms: now_ms,
                value: None,
                started_at_ms: now_ms - (1 + round as i64 * 7 % 25) * 86_400_000,
                project_id: "default".to_owned(),
                app_id: String::new(),
                run_id: String::new(),
            };
            if matches!(
                query.sort,
                schemas::filter::Sort::StartedAtDesc | schemas::filter::Sort::StartedAtAsc
            ) {
                deep.push(page(store, &query, Some(&cursor), now_ms).await?);
            }
            query.filter.app_id = Some(format!("app-{}", round % 20));
            app.push(page(store, &query, None, now_ms).await?);
        }
        let (first, deep, app) = (quantiles(first), quantiles(deep), quantiles(app));
        println!(
            "{name:34} {:9.1} {:9.1} {:9.1} {:9.1}              {:8.1} {:8.1}",
            first.0, first.1, deep.0, deep.1, app.0, app.1
        );
    }
    Ok(())
}

fn query_of(pairs: &[(String, String)]) -> Result<RunQuery, Failure> {
    let pairs = pairs
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    RunQuery::from_pairs(pairs).map_err(|fault| fault.message.into())
}

async fn page(
    store: &Store,
    query: &RunQuery,
    cursor: Option<&Cursor>,
    now_ms: i64,
) -> Result<Duration, StoreError> {
    let projects = Projects::Only(vec!["default".to_owned()]);
    let started = Instant::now();
    store.list_runs(&projects, query, cursor, now_ms).await?;
    Ok(started.elapsed())
}

/// `{n}` becomes a number below n that differs from round to round, `@n` the time n days ago.
fn vary(text: &str, round: usize, now_ms: i64) -> String {
    if let Some(days) = text
        .strip_prefix('@')
        .and_then(|days| days.parse::<i64>().ok())
    {
        return (now_ms - days * 86_400_000).to_string();
    }
    match text
        .split_once('{')
        .and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    {
        Some((before, (below, after))) => {
            let below: usize = below.parse().unwrap_or(1);
            format!("{before}{}{after}", round * 7919 % below)
        }
        None => text.to_owned(),
    }
}

fn quantiles(mut times: Vec<Duration>) -> (f64, f64) {
    times.sort();
    let at = |part: f64| {
        times
            .get((times.len() as f64 * part) as usize)
            .map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
    };
    (at(0.5), at(0.95))
}
