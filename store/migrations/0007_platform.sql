-- Builds of applications with the processes that can be started in them. The newest version of a build counts.
CREATE TABLE IF NOT EXISTS process_builds @on_cluster
(
    project_id String,
    app_id String,
    build_id String,
    version UInt64,
    status String,
    definition String,
    changed_at DateTime64(3, 'UTC'),
    changed_by String
)
ENGINE = @engine(version)
ORDER BY (project_id, app_id, build_id)
SETTINGS @durable index_granularity = 8192;

-- Instances of processes, one row each, with their tokens. Rows are written once; an equal one replaces its like.
-- Under load a group of starts is an insert of its own, about a hundred a second: small parts may pile up while a large
-- merge has the threads, and merged ones go after a minute, when the merge has long been written back, instead of eight.
CREATE TABLE IF NOT EXISTS process_instances @on_cluster
(
    project_id LowCardinality(String),
    app_id LowCardinality(String),
    started_at DateTime64(3, 'UTC'),
    uuid String,
    version UInt64,
    instance_id UInt64,
    build_id LowCardinality(String),
    build_status LowCardinality(String),
    process LowCardinality(String),
    process_uuid LowCardinality(String),
    parent_app_id LowCardinality(String),
    root_app_id LowCardinality(String),
    state LowCardinality(String),
    tokens String,
    input String,
    platform LowCardinality(String),
    started_by LowCardinality(String),
    fingerprint String,
    INDEX by_uuid uuid TYPE bloom_filter(0.0001) GRANULARITY 4
)
ENGINE = @engine(version)
PARTITION BY toYYYYMM(started_at)
ORDER BY (project_id, app_id, started_at, uuid)
SETTINGS @durable index_granularity = 1024, parts_to_delay_insert = 3000, parts_to_throw_insert = 10000,
    old_parts_lifetime = 60;

-- Who was first: whoever claims a name looks afterwards whether anybody else did, and then leaves it. Rows go a day after
-- their claim ended, so that one that takes a claim back is not gone before the claim.
CREATE TABLE IF NOT EXISTS claims @on_cluster
(
    name String,
    claimed_by String,
    version UInt64,
    expires_at DateTime('UTC')
)
ENGINE = @engine(version)
ORDER BY (name, claimed_by)
TTL expires_at + INTERVAL 1 DAY
SETTINGS @durable index_granularity = 8192, parts_to_delay_insert = 3000, parts_to_throw_insert = 10000,
    old_parts_lifetime = 60;

-- What scans of the platform found: the whole report, and what a list and the next scan need of it.
CREATE TABLE IF NOT EXISTS scans @on_cluster
(
    scanned_at DateTime64(3, 'UTC'),
    scan_id String,
    version UInt64,
    scanned_by String,
    digest String,
    report String
)
ENGINE = @engine(version)
ORDER BY (scanned_at, scan_id)
TTL toDateTime(scanned_at) + INTERVAL 90 DAY
SETTINGS @durable index_granularity = 8192;

-- A token may end by itself.
ALTER TABLE tokens @on_cluster ADD COLUMN IF NOT EXISTS expires_at Nullable(DateTime64(3, 'UTC'));
