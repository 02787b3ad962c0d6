//! Settings of the connection to ClickHouse.

use std::time::Duration;

use crate::client::cluster::Cluster;

/// Compression between this program and ClickHouse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// For loopback, where compression only costs CPU.
    #[default]
    None,
    /// For servers across a network.
    Lz4,
}

/// Settings of a [`crate::Store`].
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// `http://host:port` of ClickHouse.
    pub url: String,
    /// Further replicas of the same data, used in this order when the current one is away; at most
    /// [`crate::client::replicas::REPLICAS_MAX`] with the first.
    pub more_urls: Vec<String>,
    pub user: String,
    /// Empty for none. Never logged.
    pub password: Secret,
    /// Created by the migrations if it is missing. Letters, digits and `_`.
    pub database: String,
    pub compression: Compression,
    /// Time-out of sending one chunk of an insert.
    pub send_timeout: Duration,
    /// Time-out of the server's response after the last byte of an insert.
    pub insert_timeout: Duration,
    /// Default time-out of a read.
    pub query_timeout: Duration,
    /// Concurrent reads; more are queued (X1).
    pub max_connections: usize,
    /// Whether this program is the only writer and the server is its own engine: then inserts wait for `fsync`.
    pub standalone: bool,
    /// The cluster with the tables; `None` for one server, and for replicas that need no agreement.
    pub cluster: Option<Cluster>,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            url: "http://127.0.0.1:8123".to_owned(),
            more_urls: Vec::new(),
            user: "default".to_owned(),
            password: Secret::default(),
            database: "spindle".to_owned(),
            compression: Compression::None,
            send_timeout: Duration::from_secs(30),
            insert_timeout: Duration::from_secs(120),
            query_timeout: Duration::from_secs(10),
            max_connections: 32,
            standalone: true,
            cluster: None,
        }
    }
}

/// Text that `Debug` hides (X2).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself: only to be sent where it is needed or shown once to its owner.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}
