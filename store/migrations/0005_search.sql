-- What lists by when a run changed read first; also the place of the index for text search.
ALTER TABLE runs @on_cluster ADD INDEX IF NOT EXISTS by_name name TYPE bloom_filter(0.001) GRANULARITY 4;
