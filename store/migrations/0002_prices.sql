-- What people changed in the price table; the shipped prices are in the program and lie underneath.
-- The newest version of a row counts; a deleted one hides the shipped row of the same key.
-- Rates are USD per token.
CREATE TABLE IF NOT EXISTS prices @on_cluster
(
    model String,
    is_prefix UInt8,
    effective_from DateTime64(3, 'UTC'),
    version UInt64,
    is_deleted UInt8,
    input Decimal(38, 18),
    output Decimal(38, 18),
    cached_input Nullable(Decimal(38, 18)),
    total Nullable(Decimal(38, 18)),
    changed_at DateTime64(3, 'UTC')
)
ENGINE = @engine(version)
ORDER BY (model, is_prefix, effective_from)
SETTINGS @durable index_granularity = 8192;
