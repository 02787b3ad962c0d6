-- One row per chat event. Equal rows replace each other, so a repeated event changes nothing.
CREATE TABLE IF NOT EXISTS messages @on_cluster
(
    project_id LowCardinality(String),
    app_id LowCardinality(String),
    timestamp DateTime64(3, 'UTC'),
    event_id UInt128,
    run_id String,
    parent_run_id String,
    thread_id String,
    agent LowCardinality(String),
    user_email String,
    role LowCardinality(String),
    content String,
    INDEX by_run run_id TYPE bloom_filter(0.001) GRANULARITY 4,
    INDEX by_thread thread_id TYPE bloom_filter(0.001) GRANULARITY 4
)
ENGINE = @engine()
PARTITION BY toYYYYMMDD(timestamp)
ORDER BY (project_id, app_id, timestamp, event_id)
SETTINGS @durable index_granularity = 1024;

-- One row per feedback event: the whole history; the newest by (timestamp, event_id) counts.
CREATE TABLE IF NOT EXISTS feedback @on_cluster
(
    project_id LowCardinality(String),
    app_id LowCardinality(String),
    run_id String,
    timestamp DateTime64(3, 'UTC'),
    event_id UInt128,
    rating LowCardinality(String),
    comment String
)
ENGINE = @engine()
PARTITION BY toYYYYMMDD(timestamp)
ORDER BY (project_id, app_id, run_id, timestamp, event_id)
SETTINGS @durable index_granularity = 1024;
