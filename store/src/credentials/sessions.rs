//! Sessions of signed-in users, with their own secrets.
//!
//! A session only refers to its token: role, projects, expiry and revocation of the token are looked up at every use,
//! so they apply to its sessions at once. An identity provider's claims about a user are stored as text that only the
//! code that checks claims writes and reads.

use std::sync::Arc;
use std::time::Duration;

use clickhouse::Row;
use clickhouse::query::Query;
use moka::sync::Cache;
use schemas::credential::Credential;
use serde::Deserialize;

use super::directory::{Credentials, SecretCheck, hash_of};
use super::records::now_micros;
use super::secrets::{self, SecretHash};
use crate::client::config::Secret;
use crate::error::StoreError;

/// Concurrent sessions of one token or user; the oldest ends for a further one. Many times the browsers of one user,
/// and few enough that a program that signs in again and again fills nothing (X1).
pub const SESSIONS_EACH: usize = 100;
/// Memory for cached sessions. One of a token takes some hundred bytes, one of a user some thousand.
const KNOWN_BYTES: u64 = 16 << 20;
/// Approximate bytes of one besides its claims: its hash, its fields, and moka's own nodes.
const ENTRY_BYTES: u32 = 300;
/// Cached unknown secrets, so that a browser with an old cookie costs the database nothing.
const UNKNOWN_ENTRIES: u64 = 10_000;
/// How long an unknown secret is cached.
const UNKNOWN_LIFE: Duration = Duration::from_secs(5);

/// The session cache of one process.
pub(super) struct Sessions {
    known: Cache<SecretHash, Arc<Known>>,
    unknown: Cache<SecretHash, ()>,
}

/// A session that was not ended; it may have expired.
#[derive(Debug)]
struct Known {
    holder: Holder,
    expires_at_ms: i64,
}

#[derive(Debug)]
enum Holder {
    Token(SecretHash),
    Claims(Arc<str>),
}

impl Default for Sessions {
    fn default() -> Self {
        let weight = |_: &SecretHash, known: &Arc<Known>| match &known.holder {
            Holder::Token(_) => ENTRY_BYTES,
            Holder::Claims(claims) => {
                ENTRY_BYTES.saturating_add(u32::try_from(claims.len()).unwrap_or(u32::MAX))
            }
        };
        Self {
            known: Cache::builder()
                .max_capacity(KNOWN_BYTES)
                .weigher(weight)
                .build(),
            unknown: Cache::builder()
                .max_capacity(UNKNOWN_ENTRIES)
                .time_to_live(UNKNOWN_LIFE)
                .build(),
        }
    }
}

impl Sessions {
    /// Number of cached sessions, bytes in use, and maximum bytes.
    pub(super) fn sizes(&self) -> (u64, u64, u64) {
        self.known.run_pending_tasks();
        let entries = self.known.entry_count();
        (entries, self.known.weighted_size(), KNOWN_BYTES)
    }
}

#[derive(Clone, Copy, Debug)]
pub enum NewSession<'a> {
    /// The bearer of this valid token.
    Token { secret: &'a str, id: &'a str },
    /// A user authenticated by an identity provider.
    Person {
        /// The provider's stable id of the user.
        id: &'a str,
        /// Claims about the user, parsed again at every use; some kilobytes.
        claims: &'a str,
    },
}

/// A new session. Its secret is not available later.
#[derive(Clone, Debug)]
pub struct Started {
    /// What the browser sends from now on.
    pub secret: Secret,
    /// When it expires, Unix milliseconds.
    pub expires_at_ms: i64,
}

/// Result of the look-up of a session's secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Session {
    /// A valid session.
    Active {
        subject: SessionSubject,
        /// When it expires, Unix milliseconds.
        expires_at_ms: i64,
    },
    /// No session, or one that ended, or whose token was revoked or has expired.
    Ended,
}

/// The identity behind a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionSubject {
    /// The token in its current state.
    Token(Arc<Credential>),
    /// The claims about a user when the session began.
    Claims(Arc<str>),
}

#[derive(Row, Deserialize)]
struct SessionRow {
    token_hash: String,
    claims: String,
    expires_at: i64,
}

impl SessionRow {
    fn into_known(self) -> Option<Known> {
        let holder = match self.token_hash.as_str() {
            "" => Holder::Claims(self.claims.into()),
            hash => Holder::Token(hash_of(hash)?),
        };
        Some(Known {
            holder,
            expires_at_ms: self.expires_at,
        })
    }
}

const FIND: &str = "SELECT token_hash, claims, expires_at FROM sessions FINAL \
    WHERE secret_hash = {hash:String} AND ended_at IS NULL";
const START: &str = "INSERT INTO sessions (secret_hash, version, holder, token_hash, claims, created_at, expires_at) \
    VALUES ({hash:String}, {now:UInt64}, {holder:String}, {token:String}, {claims:String}, \
      fromUnixTimestamp64Milli({created:Int64}, 'UTC'), fromUnixTimestamp64Milli({expires:Int64}, 'UTC'))";
const LIVE: &str = "SELECT count() FROM sessions FINAL \
    WHERE holder = {holder:String} AND ended_at IS NULL AND expires_at > now64(3)";

/// Ends sessions: copies the columns of their newest rows, with an end time of now.
const END: &str = "INSERT INTO sessions (secret_hash, version, holder, token_hash, claims, created_at, expires_at, ended_at) \
    SELECT secret_hash, greatest({now:UInt64}, version + 1), holder, token_hash, '', created_at, expires_at, now64(3) \
    FROM sessions FINAL WHERE ended_at IS NULL AND ";
const THIS: &str = "secret_hash = {hash:String}";
/// All sessions of a holder except the newest ones.
const OLDEST: &str = "secret_hash IN (SELECT secret_hash FROM sessions FINAL \
    WHERE holder = {holder:String} AND ended_at IS NULL AND expires_at > now64(3) \
    ORDER BY created_at DESC, secret_hash LIMIT {kept:UInt64}, 1000000)";

impl Credentials {
    /// Begins a session that ends at `expires_at_ms`; it and `now_ms` are Unix milliseconds. Every process of the
    /// deployment knows it when this returns. With [`SESSIONS_EACH`] sessions of the same holder, the oldest ends.
    pub async fn start_session(
        &self,
        new: NewSession<'_>,
        now_ms: i64,
        expires_at_ms: i64,
    ) -> Result<Started, StoreError> {
        let secret = secrets::new_session();
        let hash = secrets::hash(secret.reveal());
        // Separate namespaces for ids of tokens and of users.
        let (holder, token_hash, claims) = match new {
            NewSession::Token { secret, id } => (id.to_owned(), Some(secrets::hash(secret)), ""),
            NewSession::Person { id, claims } => (format!("oidc:{id}"), None, claims),
        };
        self.make_room(&holder).await?;
        self.write(START, |query| {
            query
                .param("hash", hex::encode(hash))
                .param("now", now_micros())
                .param("holder", &holder)
                .param("token", token_hash.map(hex::encode).unwrap_or_default())
                .param("claims", claims)
                .param("created", now_ms)
                .param("expires", expires_at_ms)
        })
        .await?;
        Ok(Started {
            secret,
            expires_at_ms,
        })
    }

    /// Ends the oldest sessions of a holder when there is no room for another one.
    async fn make_room(&self, holder: &str) -> Result<(), StoreError> {
        let live: u64 = self.read(LIVE).param("holder", holder).one().await?;
        let kept = SESSIONS_EACH as u64 - 1;
        if live <= kept {
            return Ok(());
        }
        let sql = format!("{END}{OLDEST}");
        self.write(&sql, |query| {
            query
                .param("holder", holder)
                .param("kept", kept)
                .param("now", now_micros())
        })
        .await?;
        self.forget_sessions();
        self.reload().await
    }

    /// The state of a session at `now_ms`, Unix milliseconds. Fails only when it, or its token, is not cached and the
    /// database is away.
    pub async fn session(&self, secret: &str, now_ms: i64) -> Result<Session, StoreError> {
        let Some(known) = self.find_session(secrets::hash(secret)).await? else {
            return Ok(Session::Ended);
        };
        if known.expires_at_ms <= now_ms {
            return Ok(Session::Ended);
        }
        let subject = match &known.holder {
            Holder::Claims(claims) => SessionSubject::Claims(claims.clone()),
            Holder::Token(hash) => match self.check_hash(hash, now_ms).await? {
                SecretCheck::Valid(token) => SessionSubject::Token(token),
                SecretCheck::Expired { .. } | SecretCheck::Unknown => return Ok(Session::Ended),
            },
        };
        Ok(Session::Active {
            subject,
            expires_at_ms: known.expires_at_ms,
        })
    }

    /// Ends a session; `false` when it was over. This process rejects it from now on, others as soon as they receive
    /// the message, or after their next refresh.
    pub async fn end_session(&self, secret: &str) -> Result<bool, StoreError> {
        let hash = secrets::hash(secret);
        if self.find_session(hash).await?.is_none() {
            return Ok(false);
        }
        let sql = format!("{END}{THIS}");
        self.write(&sql, |query| {
            query
                .param("hash", hex::encode(hash))
                .param("now", now_micros())
        })
        .await?;
        // Whatever a reload finds, this one is over from here on.
        self.forget_sessions();
        self.reload().await?;
        Ok(true)
    }

    /// Clears the cache of sessions.
    pub(super) fn forget_sessions(&self) {
        self.changed();
        self.sessions().known.invalidate_all();
        self.sessions().unknown.invalidate_all();
    }

    async fn find_session(&self, hash: SecretHash) -> Result<Option<Arc<Known>>, StoreError> {
        if let Some(answer) = self.cached_session(&hash) {
            return Ok(answer);
        }
        let _turn = self.turn().await?;
        if let Some(answer) = self.cached_session(&hash) {
            return Ok(answer);
        }
        let generation = *self.generation();
        let found = self.read_session(&hash).await?.map(Arc::new);
        self.count(if found.is_some() {
            "database"
        } else {
            "nowhere"
        });
        let now = self.generation();
        if *now == generation {
            match &found {
                Some(known) => self.sessions().known.insert(hash, known.clone()),
                None => self.sessions().unknown.insert(hash, ()),
            }
        }
        drop(now);
        Ok(found)
    }

    fn cached_session(&self, hash: &SecretHash) -> Option<Option<Arc<Known>>> {
        if let Some(known) = self.sessions().known.get(hash) {
            return Some(Some(known));
        }
        self.sessions().unknown.get(hash).map(|()| {
            self.count("cache_unknown");
            None
        })
    }

    /// Whether a secret belongs to a session, as far as the cache knows; `None` when it has to be looked up.
    pub fn cached_session_secret(&self, secret: &str) -> Option<bool> {
        let hash = secrets::hash(secret);
        if self.sessions().known.contains_key(&hash) {
            return Some(true);
        }
        self.sessions().unknown.contains_key(&hash).then_some(false)
    }

    async fn read_session(&self, hash: &SecretHash) -> Result<Option<Known>, StoreError> {
        let rows = self.read(FIND).param("hash", hex::encode(hash));
        let rows: Vec<SessionRow> = rows.rows().await?;
        Ok(rows.into_iter().next().and_then(SessionRow::into_known))
    }

    /// Executes a statement that writes, with retries where it meets another one.
    async fn write(&self, sql: &str, fill: impl Fn(Query) -> Query) -> Result<(), StoreError> {
        let store = self.store();
        let is_replicated = store.replicated().is_some();
        store
            .write_small(move || {
                let query = fill(store.client.query_raw(sql));
                match is_replicated {
                    // It must read what other processes wrote, also on a replica that lags behind.
                    true => query.with_setting("select_sequential_consistency", "1"),
                    false => query,
                }
            })
            .await
    }
}
