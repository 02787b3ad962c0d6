//! The parsers of external bytes, one target each. `fuzz/README.md` describes how to run one for long.

#![allow(clippy::unwrap_used, clippy::expect_used)]

// The binary has no library, so its two parsers are compiled here again.
#[allow(dead_code, reason = "the commands use the rest")]
#[path = "../../src/moving/file.rs"]
mod archive_file;
#[path = "../../tests/golden/golden.rs"]
mod golden;
#[allow(dead_code, reason = "the commands use the rest")]
#[path = "../../src/admin/price_file.rs"]
mod price_file;

#[path = "parsers/archive.rs"]
mod archive;
#[path = "parsers/build.rs"]
mod build;
#[path = "parsers/control.rs"]
mod control;
#[path = "parsers/credentials.rs"]
mod credentials;
#[path = "parsers/cursors.rs"]
mod cursors;
#[path = "parsers/filter.rs"]
mod filter;
#[path = "parsers/grpc.rs"]
mod grpc;
#[path = "parsers/ingest_tier.rs"]
mod ingest_tier;
#[path = "parsers/intake.rs"]
mod intake;
#[path = "parsers/langfuse.rs"]
mod langfuse;
#[path = "parsers/otlp.rs"]
mod otlp;
#[path = "parsers/prices.rs"]
mod prices;
#[path = "parsers/record.rs"]
mod record;
#[path = "parsers/report.rs"]
mod report;
#[path = "parsers/segment.rs"]
mod segment;
#[path = "parsers/services.rs"]
mod services;
#[path = "parsers/state.rs"]
mod state;
