-- Who is signed in: a row for each session, by the hash of its random secret. One stands for a token, and then for what
-- that token may do now, or for what an identity provider claims of a person, and then `token_hash` is empty. The newest
-- version counts. Rows go a day after their end: one that says that a session was ended goes with the one it ends.
CREATE TABLE IF NOT EXISTS sessions @on_cluster
(
    secret_hash String,
    version UInt64,
    holder String,
    token_hash String,
    claims String,
    created_at DateTime64(3, 'UTC'),
    expires_at DateTime64(3, 'UTC'),
    ended_at Nullable(DateTime64(3, 'UTC'))
)
ENGINE = @engine(version)
ORDER BY secret_hash
TTL toDateTime(expires_at) + INTERVAL 1 DAY
SETTINGS @durable index_granularity = 8192, parts_to_delay_insert = 3000, parts_to_throw_insert = 10000,
    old_parts_lifetime = 60;
