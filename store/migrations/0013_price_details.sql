-- The rates of a price beside the four columns: other kinds of usage, requests, tiers by length of the prompt and factors of service tiers.
-- JSON with USD per token, empty for none, so that a further kind needs no column. See schemas/src/price/details.rs.
ALTER TABLE prices @on_cluster ADD COLUMN IF NOT EXISTS details String DEFAULT '';
