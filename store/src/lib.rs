//! ClickHouse: client, migrations, tables, inserts, look-ups, credentials and the embedded engine.
//!
//! This is the only crate that knows ClickHouse. The same client, tables and migrations serve the engine that
//! `spindle serve` runs as its child and a server somebody else runs.
//!
//! # Promises
//!
//! - One insert call is one block per partition: it is stored whole or not at all per partition, and repeating
//!   it changes nothing, because every table is keyed so that equal rows replace each other.
//! - In standalone an insert returns after `fsync`: its rows survive power loss (R1).
//! - Every read is bounded in rows, memory and time, and dropping its future cancels it on the server (Q1).
//! - No SQL is built from text that came from outside: values travel as server-side parameters.
//! - Secrets are stored as hashes and never logged (X2).
//!
//! It deliberately does not know how events fold into runs: it writes the rows it is given and reads them back.
//!
//! Start reading at [`client::Store`]; [`engine::Engine`] is the child process.

pub mod builds;
pub mod changes;
pub mod claims;
pub mod client;
pub mod cluster;
pub mod config;
pub mod costs_read;
pub mod credentials;
pub mod current;
pub mod deployment;
pub mod engine;
pub mod error;
pub mod events_read;
pub mod facets;
pub mod feedback_read;
pub mod filter_sql;
pub mod inserts;
pub mod instances;
pub mod jobs;
pub mod losses;
mod messages_read;
pub mod metrics;
pub mod migrations;
pub mod moving;
pub mod prices;
pub mod reads;
pub mod rebuild;
pub mod replicas;
pub mod retention;
mod row_binary;
pub mod rows;
pub mod runs_read;
pub mod scans;
pub mod search_index;
pub mod shares;
pub mod states;
pub mod testing;
pub mod threads_read;
pub mod unpriced_read;
pub mod usage;

pub use client::Store;
pub use cluster::Cluster;
pub use config::{Compression, StoreConfig};
pub use error::StoreError;
