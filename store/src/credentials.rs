//! Who may come in: projects, API keys and tokens, and the directory that answers for every request.
//!
//! The tables are small. [`Credentials`] holds what is active in a bounded cache, fills it whole at
//! [`Credentials::refresh`], and asks the database only for secrets it has not seen. So a request costs one
//! hash and one cache look-up, and goes on costing that while the database is away (R1).
//!
//! People may sign in for a while: a [`Session`] stands for a token, or for what an identity provider claims of
//! somebody, and is looked up by the hash of a secret of its own.
//!
//! Secrets are shown once, when they are made; what is stored is their SHA-256. They are random and long, so no
//! slow hash is needed.

mod bootstrap;
mod directory;
mod failures;
mod projects;
mod records;
mod secrets;
mod sessions;
mod snapshot;

pub use bootstrap::{GivenSecrets, NewSecrets};
pub use directory::{CacheStats, Credentials, Examined, Keyless};
pub use failures::{FAILURES_PER_MINUTE, FailedCredential, Failures};
pub use projects::ProjectChange;
pub use records::{Created, KeyRecord, NewKey, NewToken, ProjectRecord, TokenRecord};
pub use sessions::{NewSession, SESSIONS_EACH, Session, StandsFor, Started};
pub use snapshot::{Snapshot, SnapshotFault};
