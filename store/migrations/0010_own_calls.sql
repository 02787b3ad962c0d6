-- Model calls that a run reports itself, without the calls of its descendants: several may share the id of one run, of any type.
ALTER TABLE runs @on_cluster ADD COLUMN IF NOT EXISTS calls UInt64 DEFAULT if(type = 'llm', 1, 0);
