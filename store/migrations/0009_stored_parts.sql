-- Which parts each partition was last seen to have: the numbers of their first and last block, and their rows. Blocks
-- that were there stay covered by some part for as long as nothing is lost. An empty list begins again.
CREATE TABLE IF NOT EXISTS stored_parts @on_cluster
(
    table_name String,
    partition_id String,
    version UInt64,
    parts Array(Tuple(Int64, Int64, UInt64))
)
ENGINE = @engine(version)
ORDER BY (table_name, partition_id)
SETTINGS @durable index_granularity = 8192;
