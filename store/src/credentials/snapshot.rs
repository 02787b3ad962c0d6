//! The part of the credentials that ingest needs, in a form that is stored outside of the database.
//!
//! It contains hashes of secrets, never secrets: a reader of the file learns which keys exist and cannot use them.
//! Tokens are not in it, because events are not reported with tokens.

use std::collections::HashMap;
use std::sync::Arc;

use schemas::credential::Credential;
use schemas::ids::{AppId, ProjectId};
use serde::{Deserialize, Serialize};

use super::directory::{Credentials, Keyless, hash_of};
use super::records::scope_of;

/// The format version of [`Snapshot`] written here. Others are rejected.
const FORM: u32 = 1;

/// Keys and keyless apps at a point in time. Stored in a file by serde.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Format version.
    form: u32,
    /// When the tables were read, Unix milliseconds.
    at_ms: i64,
    keys: Vec<Key>,
    keyless: Vec<App>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Key {
    secret_hash: String,
    id: String,
    project: String,
    default_app: String,
    scopes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct App {
    app: String,
    project: String,
    default_app: String,
}

/// Why a snapshot cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotFault {
    /// Unknown format version.
    #[error("it is written in form {0}, which this program does not know")]
    Form(u32),
    /// Too old: a key revoked since would be valid again for too long.
    #[error("it is {0} seconds old, which is more than is allowed")]
    Old(i64),
    /// It is dated in the future, so its age is unknown.
    #[error("it is from the future")]
    Future,
}

/// How much clocks of one machine may differ between two starts, milliseconds.
const CLOCK_SLACK_MS: i64 = 60_000;

impl Snapshot {
    /// Number of keys.
    pub fn keys(&self) -> usize {
        self.keys.len()
    }
}

impl Credentials {
    /// Call it after a successful [`Credentials::refresh`] at `now_ms`.
    pub fn snapshot(&self, now_ms: i64) -> Snapshot {
        let (keys, keyless) = self.reporters();
        let mut keys: Vec<Key> = keys
            .iter()
            .filter_map(|(hash, credential)| match &**credential {
                Credential::Key {
                    id,
                    project,
                    default_app,
                    scopes,
                } => Some(Key {
                    secret_hash: hex::encode(hash),
                    id: id.clone(),
                    project: project.as_str().to_owned(),
                    default_app: default_app.as_str().to_owned(),
                    scopes: scopes
                        .iter()
                        .map(|scope| scope.as_str().to_owned())
                        .collect(),
                }),
                Credential::Token { .. } | Credential::Person { .. } => None,
            })
            .collect();
        let mut keyless: Vec<App> = keyless
            .iter()
            .map(|(app, keyless)| App {
                app: app.clone(),
                project: keyless.project.as_str().to_owned(),
                default_app: keyless.default_app.as_str().to_owned(),
            })
            .collect();
        keys.sort();
        keyless.sort();
        Snapshot {
            form: FORM,
            at_ms: now_ms,
            keys,
            keyless,
        }
    }

    /// Uses the snapshot until the tables are read: the next [`Credentials::refresh`] replaces it. Other secrets are
    /// looked up in the tables.
    ///
    /// # Errors
    /// When the snapshot is older than `max_age_ms` at `now_ms`, or of another format. Then nothing is loaded.
    pub fn restore(
        &self,
        snapshot: &Snapshot,
        now_ms: i64,
        max_age_ms: i64,
    ) -> Result<(), SnapshotFault> {
        if snapshot.form != FORM {
            return Err(SnapshotFault::Form(snapshot.form));
        }
        let age_ms = now_ms.saturating_sub(snapshot.at_ms);
        if age_ms < -CLOCK_SLACK_MS {
            return Err(SnapshotFault::Future);
        }
        if age_ms > max_age_ms {
            return Err(SnapshotFault::Old(age_ms / 1000));
        }
        let keys = snapshot.keys.iter().filter_map(|key| {
            let credential = Credential::Key {
                id: key.id.clone(),
                project: ProjectId::new(key.project.as_str()),
                default_app: AppId::new(key.default_app.as_str()),
                scopes: key
                    .scopes
                    .iter()
                    .filter_map(|scope| scope_of(scope))
                    .collect(),
            };
            Some((hash_of(&key.secret_hash)?, Arc::new(credential)))
        });
        let keyless = snapshot.keyless.iter().map(|app| {
            let keyless = Keyless {
                project: ProjectId::new(app.project.as_str()),
                default_app: AppId::new(app.default_app.as_str()),
            };
            (app.app.clone(), keyless)
        });
        self.believe(keys.collect(), keyless.collect::<HashMap<_, _>>());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prometheus::Registry;
    use schemas::credential::Scope;

    use super::super::secrets;
    use super::*;
    use crate::metrics::Metrics;
    use crate::{Store, StoreConfig};

    const NOW_MS: i64 = 1_800_000_000_000;

    /// A directory without a server.
    fn alone() -> Credentials {
        let config = StoreConfig {
            url: "http://127.0.0.1:1".to_owned(),
            ..StoreConfig::default()
        };
        let metrics = Metrics::register(&Registry::new()).unwrap();
        Credentials::new(Store::connect(config, metrics).unwrap())
    }

    fn known() -> Credentials {
        let credentials = alone();
        let entry = |secret: &str, credential| (secrets::hash(secret), Arc::new(credential));
        let key = Credential::Key {
            id: "key_1".to_owned(),
            project: ProjectId::new("p"),
            default_app: AppId::new("a"),
            scopes: vec![Scope::Report],
        };
        let token = Credential::Token {
            id: "tok_1".to_owned(),
            name: String::new(),
            role: schemas::credential::Role::Admin,
            projects: None,
            expires_at_ms: None,
        };
        let keyless = Keyless {
            project: ProjectId::new("p"),
            default_app: AppId::new("a"),
        };
        credentials.believe(
            vec![entry("the key", key), entry("the token", token)],
            HashMap::from([("open".to_owned(), keyless)]),
        );
        credentials
    }

    #[tokio::test]
    async fn keys_and_keyless_apps_come_back_without_the_tables_and_tokens_do_not() {
        let text = serde_json::to_string(&known().snapshot(NOW_MS)).unwrap();
        for secret in ["the key", "the token", "tok_1"] {
            assert!(!text.contains(secret), "{text}");
        }
        let restored = alone();
        let snapshot: Snapshot = serde_json::from_str(&text).unwrap();
        restored.restore(&snapshot, NOW_MS + 1000, 1000).unwrap();
        let found = restored.authenticate("the key").await.unwrap().unwrap();
        assert_eq!(Some(found), known().authenticate("the key").await.unwrap());
        assert_eq!(restored.keyless("open"), known().keyless("open"));
        assert!(
            restored.authenticate("unknown").await.is_err(),
            "a secret cannot be called unknown while the tables are away"
        );
        assert_eq!(restored.snapshot(NOW_MS), snapshot);
    }

    #[tokio::test]
    async fn one_that_is_old_or_of_another_form_is_not_taken() {
        let snapshot = known().snapshot(NOW_MS);
        let refused = |snapshot: &Snapshot, now_ms| alone().restore(snapshot, now_ms, 5000).err();
        assert_eq!(refused(&snapshot, NOW_MS + 5000), None);
        assert_eq!(
            refused(&snapshot, NOW_MS + 6000),
            Some(SnapshotFault::Old(6))
        );
        assert_eq!(
            refused(&snapshot, NOW_MS - 70_000),
            Some(SnapshotFault::Future)
        );
        let newer = Snapshot {
            form: 2,
            ..snapshot
        };
        assert_eq!(refused(&newer, NOW_MS), Some(SnapshotFault::Form(2)));
    }

    #[test]
    fn a_snapshot_has_the_bytes_that_data_folders_hold() {
        let snapshot = known().snapshot(NOW_MS);
        let text = serde_json::to_string(&snapshot).unwrap();
        let golden = crate::golden::check("credential_snapshot.1.json", text.as_bytes());
        let read: Snapshot = serde_json::from_slice(&golden).unwrap();
        assert_eq!(read, snapshot);
        alone().restore(&read, NOW_MS, 0).unwrap();
    }
}
