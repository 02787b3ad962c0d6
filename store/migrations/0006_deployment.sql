-- What all processes of a deployment have agreed on, by name. The newest version of a value counts.
CREATE TABLE IF NOT EXISTS deployment @on_cluster
(
    name String,
    version UInt64,
    value String
)
ENGINE = @engine(version)
ORDER BY name
SETTINGS @durable index_granularity = 8192;
