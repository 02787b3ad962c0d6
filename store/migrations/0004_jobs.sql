-- Long work that a person or a schedule asked for. The newest version of a job counts.
-- A running job belongs to the process named by runner, as long as that keeps updated_at young.
CREATE TABLE IF NOT EXISTS jobs @on_cluster
(
    job_id String,
    version UInt64,
    kind LowCardinality(String),
    project_id String,
    state LowCardinality(String),
    runner String,
    parameters String,
    checkpoint String,
    done UInt64,
    total UInt64,
    changed UInt64,
    report String,
    error String,
    created_at DateTime64(3, 'UTC'),
    started_at Nullable(DateTime64(3, 'UTC')),
    updated_at DateTime64(3, 'UTC'),
    ended_at Nullable(DateTime64(3, 'UTC'))
)
ENGINE = @engine(version)
ORDER BY job_id
SETTINGS @durable index_granularity = 8192;

-- Days after which a project's data is dropped; 0 keeps it for ever.
ALTER TABLE projects @on_cluster ADD COLUMN IF NOT EXISTS retention_days UInt32 DEFAULT 30;

-- When a row was written: a rebuild reads what was stored since it last looked.
ALTER TABLE events @on_cluster ADD COLUMN IF NOT EXISTS stored_at DateTime64(3, 'UTC') DEFAULT received_at;
ALTER TABLE events @on_cluster ADD INDEX IF NOT EXISTS by_stored stored_at TYPE minmax GRANULARITY 1;
