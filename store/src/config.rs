//! How to reach ClickHouse and how much to ask of it.

use std::time::Duration;

use crate::cluster::Cluster;

/// Compression between this program and ClickHouse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// None: on loopback it only costs CPU.
    #[default]
    None,
    /// LZ4, for servers across a network.
    Lz4,
}

/// Settings of a [`crate::Store`].
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// `http://host:port` of ClickHouse.
    pub url: String,
    /// Further replicas of the same data, used in this order when the one in use is away; at most
    /// [`crate::replicas::REPLICAS_MAX`] with the first.
    pub more_urls: Vec<String>,
    /// User name.
    pub user: String,
    /// Password, empty for none. Never logged.
    pub password: Secret,
    /// Database; made by the migrations when it is missing. Letters, digits and `_`.
    pub database: String,
    /// Compression on the wire.
    pub compression: Compression,
    /// How long one chunk of an insert may take to be sent.
    pub send_timeout: Duration,
    /// How long the server may take over an insert after the last byte.
    pub insert_timeout: Duration,
    /// How long a read may take unless it says otherwise.
    pub query_timeout: Duration,
    /// Reads at the same time; more wait (X1).
    pub max_connections: usize,
    /// Whether this program is the only writer and the server is its own engine: then inserts wait for `fsync`.
    pub standalone: bool,
    /// The cluster that holds the tables; `None` for one server, and for replicas that need no agreement.
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

/// Text that must not be shown: `Debug` hides it (X2).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
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
