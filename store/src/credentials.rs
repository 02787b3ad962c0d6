//! Authentication: projects, API keys and tokens, and the directory for every request.
//!
//! The tables are small. [`Credentials`] holds the active ones in a bounded cache, fills it completely at
//! [`Credentials::refresh`], and queries the database only for unknown secrets. So a request costs one hash and one
//! cache look-up, also while the database is away (R1).
//!
//! Users may sign in: a [`Session`] stands for a token, or for an identity provider's claims about a user, and is
//! looked up by the hash of its own secret.
//!
//! Secrets are shown once, when they are created; the tables store their SHA-256. They are random and long, so no slow
//! hash is needed.

mod bootstrap;
mod directory;
mod failures;
mod projects;
mod records;
mod secrets;
mod sessions;
mod snapshot;

pub use bootstrap::{GivenSecrets, NewSecrets};
pub use directory::{CacheStats, Credentials, Keyless, SecretCheck};
pub use failures::{FAILURES_PER_MINUTE, FailedCredential, Failures};
pub use projects::ProjectChange;
pub use records::{Created, KeyRecord, NewKey, NewToken, ProjectRecord, TokenRecord};
pub use sessions::{NewSession, SESSIONS_EACH, Session, SessionSubject, Started};
pub use snapshot::{Snapshot, SnapshotFault};
