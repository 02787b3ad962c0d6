-- What `q` searches, as it searches it: see docs/decisions/0008-search.md.
-- Grams of three letters find any piece of text. An index only says where to look; what is found is compared.
-- Building it takes as long as all the rest of writing a run (13 us), so neither inserts nor merges do:
-- it is built once for each day that has ended, and newer days are looked through.
ALTER TABLE runs @on_cluster ADD INDEX IF NOT EXISTS by_text
    lowerUTF8(concat(name, '\n', error_name, '\n', error_message, '\n', input_preview, '\n', output_preview))
    TYPE text(tokenizer = ngrams(3)) GRANULARITY 100000000;
-- A day on which nothing was written for a day becomes one part: sums over it then need no merging.
ALTER TABLE runs @on_cluster MODIFY SETTING exclude_materialize_skip_indexes_on_merge = 'by_text',
    min_age_to_force_merge_seconds = 86400, min_age_to_force_merge_on_partition_only = 1;
