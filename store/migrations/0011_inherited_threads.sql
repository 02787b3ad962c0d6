-- Whether a message without a thread takes the one that another message of its run names: only old clients mean that, and messages of earlier versions did.
ALTER TABLE messages @on_cluster ADD COLUMN IF NOT EXISTS inherits_thread UInt8 DEFAULT 1;
