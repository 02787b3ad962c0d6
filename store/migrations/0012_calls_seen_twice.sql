-- Model calls that several instrumentations report: which run counts, and what such runs are found by. See decision 0028.
ALTER TABLE runs @on_cluster MODIFY COLUMN cost_status Enum8('priced' = 1, 'provided' = 2, 'not_llm' = 3, 'no_model' = 4, 'no_tokens' = 5, 'unpriced_model' = 6, 'counted_elsewhere' = 8);
ALTER TABLE runs @on_cluster ADD COLUMN IF NOT EXISTS counted_run_id String DEFAULT '';
ALTER TABLE runs @on_cluster ADD COLUMN IF NOT EXISTS enclosing_call String DEFAULT '';
ALTER TABLE runs @on_cluster ADD COLUMN IF NOT EXISTS call_links Array(UInt64) DEFAULT [];
ALTER TABLE runs @on_cluster ADD INDEX IF NOT EXISTS by_call_link call_links TYPE bloom_filter(0.0001) GRANULARITY 4;
