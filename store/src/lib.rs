//! ClickHouse: client, migrations, tables, inserts, look-ups, credentials and the embedded engine.
//!
//! This is the only crate that knows ClickHouse. The same client, tables and migrations serve the engine that
//! `spindle serve` runs as its child and an external server.
//!
//! # Promises
//!
//! - One insert call is one block per partition: it is stored completely or not at all per partition, and repeating it
//!   changes nothing, because every table is keyed so that equal rows replace each other.
//! - In standalone an insert returns after `fsync`: its rows survive power loss (R1).
//! - Every read is bounded in rows, memory and time, and dropping its future cancels it on the server (Q1).
//! - No SQL is built from external text: values travel as server-side parameters.
//! - Secrets are stored as hashes and never logged (X2).
//!
//! It deliberately does not know how events fold into runs: it writes the given rows and reads them back.
//!
//! # Map
//!
//! | module | holds |
//! | --- | --- |
//! | [`error`], [`metrics`] | the crate's errors and metrics |
//! | [`shares`] | permits that tenants share |
//! | [`recent_pages`] | what earlier first pages tell about the next one |
//! | [`client`] | the connection: settings, replicas, clusters, bounded reads |
//! | [`engine`] | the embedded engine as a child process |
//! | [`tables`] | migrations, and the rows as they are written |
//! | [`inserts`] | writing, with the end of a lease as deadline |
//! | [`reads`] | lists, details and sums of runs, events, messages and feedback; look-ups of processing |
//! | [`maintenance`] | work on whole tables: rebuild, retention, text index, lost parts, relocation |
//! | [`jobs`] | the queue of long work |
//! | [`prices`] | the price table |
//! | [`platform`] | builds, instances, claims, scans and what a deployment agreed on |
//! | [`credentials`] | projects, keys, tokens and sessions |
//! | [`testing`] | a real engine for tests |
//!
//! A module uses only modules above it. Start reading at [`Store`].

mod client;
pub mod credentials;
pub mod engine;
mod error;
pub mod inserts;
pub mod jobs;
pub mod maintenance;
pub mod metrics;
pub mod platform;
pub mod prices;
pub mod reads;
mod recent_pages;
pub mod shares;
pub mod tables;
pub mod testing;

pub use client::cluster::Cluster;
pub use client::config::{Compression, Secret, StoreConfig};
pub use client::query::{BoundedQuery, Cursor, ReadBounds};
pub use client::replicas::REPLICAS_MAX;
pub use client::{Connections, Store};
pub use error::StoreError;

#[cfg(test)]
#[path = "../../tests/golden/golden.rs"]
mod golden;
