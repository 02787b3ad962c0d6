//! A table of many runs for the benchmarks of lists and totals: thirty days, twenty apps.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;

use crate::engine::BenchEngine;

#[derive(Args)]
pub(crate) struct RunsTableArgs {
    /// Runs in the table
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    runs: u64,
    /// Folder of the engine; kept, so that the next measurement starts at once
    #[arg(long, value_name = "DIR", default_value = "target/list-bench")]
    folder: PathBuf,
}

/// Runs per statement: about the runs of a busy day.
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

/// A running engine with the table.
pub(crate) struct RunsTable {
    pub(crate) engine: BenchEngine,
    /// Start of the newest run, Unix milliseconds.
    pub(crate) now_ms: i64,
}

impl RunsTable {
    /// Fills the table if it is empty.
    pub(crate) async fn open(args: RunsTableArgs) -> anyhow::Result<Self> {
        let engine = BenchEngine::start(&args.folder).await?;
        let now_ms = fill(&engine.client, args.runs).await?;
        Ok(Self { engine, now_ms })
    }
}

/// Fills the table if it is empty; returns the time of the newest run.
async fn fill(client: &clickhouse::Client, runs: u64) -> anyhow::Result<i64> {
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
                .with_setting("exclude_materialize_skip_indexes_on_insert", "by_text")
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
