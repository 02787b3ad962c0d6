-- Calls with usage that has no rate of its own, and the time to the first token.
ALTER TABLE runs @on_cluster MODIFY COLUMN cost_status Enum8('priced' = 1, 'provided' = 2, 'not_llm' = 3, 'no_model' = 4, 'no_tokens' = 5, 'unpriced_model' = 6, 'partly_priced' = 7, 'counted_elsewhere' = 8);
ALTER TABLE runs @on_cluster ADD COLUMN IF NOT EXISTS ttft_ms Nullable(UInt64) DEFAULT NULL;
