-- The truth: every accepted event once.
CREATE TABLE IF NOT EXISTS events @on_cluster
(
    project_id LowCardinality(String),
    app_id LowCardinality(String),
    timestamp DateTime64(3, 'UTC'),
    run_id String,
    event_id UInt128,
    name String,
    payload String CODEC(LZ4),
    received_at DateTime64(3, 'UTC'),
    INDEX by_run run_id TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = @engine()
PARTITION BY toYYYYMMDD(timestamp)
ORDER BY (project_id, app_id, timestamp, event_id)
SETTINGS @durable index_granularity = 8192, min_bytes_for_wide_part = 134217728;

-- One row per run: what lists filter and show, and the state its fold goes on from.
-- Measured at 10 million runs in 20 apps on two cores, with the reads of runs_read.rs:
-- * Start before app in the key, and 1024 rows to a granule: the newest page lies in one or two granules instead of
--   in two per app. Reading 50 newest rows whole took 79 ms before (8192 rows, app first), 9 ms now; 50 rows spread
--   over all days 120 ms and 31 ms. The price is paid by look-ups by run id inside one app: 1000 ids 40 ms and 170 ms.
-- * latency_key and cost_key are what bounds are compared with first: a minimum over a Nullable column skips nothing
--   where one run is unfinished, and a Decimal is 16 bytes to read per row. Scanning for a cost took 125 ms, 15 ms now.
-- * Parts of 32 MB and more are wide: scanning one column of a compact part took ten times as long (21 ms and 165 ms).
-- * Small compressed blocks: a page spread over all days reads one granule of a column at fifty places, and whole blocks
--   have to be unpacked for it (74 ms of CPU and 60 ms). Rare false positives of the blooms for the same reason: with
--   0.01 half of the granules read for a user were not the user's. Neither shows in the time of inserts.
-- * No index on model, agent, status or app: reading these one-byte columns is as fast as asking an index about them.
-- * by_run and by_parent are asked about 1000 ids at once: at one false answer in a hundred every granule would match.
--   1000 runs of the last hour among 4 million: 240 ms at 0.01, 70 ms at 0.0001, for 2.4 bytes more a run.
CREATE TABLE IF NOT EXISTS runs @on_cluster
(
    project_id LowCardinality(String),
    app_id LowCardinality(String),
    started_at DateTime64(3, 'UTC'),
    run_id String,
    version UInt64,
    is_deleted UInt8,
    parent_run_id String,
    root_run_id String,
    name String,
    type LowCardinality(String),
    status Enum8('started' = 1, 'success' = 2, 'error' = 3),
    agent LowCardinality(String),
    user_email String,
    model LowCardinality(String),
    tags Array(LowCardinality(String)),
    thread_id String,
    ended_at Nullable(DateTime64(3, 'UTC')),
    latency_ms Nullable(Int64),
    prompt_tokens Nullable(UInt64),
    completion_tokens Nullable(UInt64),
    total_tokens Nullable(UInt64),
    cached_tokens Nullable(UInt64),
    reasoning_tokens Nullable(UInt64),
    cost Decimal(38, 18),
    cost_status Enum8('priced' = 1, 'provided' = 2, 'not_llm' = 3, 'no_model' = 4, 'no_tokens' = 5, 'unpriced_model' = 6),
    cost_estimated UInt8,
    total_cost Decimal(38, 18),
    total_prompt_tokens UInt64,
    total_completion_tokens UInt64,
    total_tokens_with_children UInt64,
    llm_calls UInt64,
    error_count UInt64,
    error_name String,
    error_message String,
    saved UInt8,
    feedback_rating LowCardinality(String),
    feedback_comment String,
    feedback_at Nullable(DateTime64(3, 'UTC')),
    input_preview String,
    output_preview String,
    metadata Map(LowCardinality(String), String),
    first_event_at DateTime64(3, 'UTC'),
    last_event_at DateTime64(3, 'UTC'),
    updated_at DateTime64(3, 'UTC'),
    state String,
    latency_key Int32 MATERIALIZED if(isNull(latency_ms), -2147483648, toInt32(least(greatest(assumeNotNull(latency_ms), -2147483647), 2147483647))),
    cost_key Float32 MATERIALIZED toFloat32(total_cost),
    INDEX by_run run_id TYPE bloom_filter(0.0001) GRANULARITY 4,
    INDEX by_parent parent_run_id TYPE bloom_filter(0.0001) GRANULARITY 4,
    INDEX by_root root_run_id TYPE bloom_filter(0.001) GRANULARITY 4,
    INDEX by_user user_email TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX by_thread thread_id TYPE bloom_filter(0.001) GRANULARITY 4,
    INDEX by_tag tags TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX by_latency latency_key TYPE minmax GRANULARITY 1,
    INDEX by_cost cost_key TYPE minmax GRANULARITY 1,
    INDEX by_update updated_at TYPE minmax GRANULARITY 1
)
ENGINE = @engine(version, is_deleted)
PARTITION BY toYYYYMMDD(started_at)
ORDER BY (project_id, started_at, app_id, run_id)
SETTINGS @durable index_granularity = 1024, min_bytes_for_wide_part = 33554432,
    min_compress_block_size = 8192, max_compress_block_size = 131072;

-- Tenants. The newest version of a row is the one that counts in this and the next two tables.
CREATE TABLE IF NOT EXISTS projects @on_cluster
(
    project_id String,
    version UInt64,
    default_app String,
    keyless_app_ids Array(String),
    created_at DateTime64(3, 'UTC')
)
ENGINE = @engine(version)
ORDER BY project_id
SETTINGS @durable index_granularity = 8192;

CREATE TABLE IF NOT EXISTS api_keys @on_cluster
(
    secret_hash String,
    version UInt64,
    id String,
    project_id String,
    name String,
    scopes Array(String),
    created_at DateTime64(3, 'UTC'),
    revoked_at Nullable(DateTime64(3, 'UTC'))
)
ENGINE = @engine(version)
ORDER BY secret_hash
SETTINGS @durable index_granularity = 8192;

CREATE TABLE IF NOT EXISTS tokens @on_cluster
(
    secret_hash String,
    version UInt64,
    id String,
    name String,
    role String,
    projects Array(String),
    created_at DateTime64(3, 'UTC'),
    revoked_at Nullable(DateTime64(3, 'UTC'))
)
ENGINE = @engine(version)
ORDER BY secret_hash
SETTINGS @durable index_granularity = 8192;
