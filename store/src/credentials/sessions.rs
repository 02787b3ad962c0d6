//! Sessions: people who signed in for a while, known by a secret of their own.
//!
//! A session says whom it stands for and no more: the role, the projects, the end and the revocation of a token are its
//! own and looked up at every use, so they count for its sessions at once. What an identity provider claims of somebody
//! is kept as text that whoever checks claims gives and reads.

use std::sync::Arc;
use std::time::Duration;

use clickhouse::Row;
use clickhouse::query::Query;
use moka::sync::Cache;
use schemas::credential::Credential;
use serde::Deserialize;

use super::directory::{Credentials, Examined, hash_of};
use super::records::now_micros;
use super::secrets::{self, SecretHash};
use crate::config::Secret;
use crate::error::StoreError;

/// Sessions of one token or one person at the same time; the oldest ends for a further one. Many times the browsers
/// somebody has, and few enough that a program that signs in again and again fills nothing (X1).
pub const SESSIONS_EACH: usize = 100;
/// Memory for sessions that were looked up. One of a token takes some hundred bytes, one of a person some thousand.
const KNOWN_BYTES: u64 = 16 << 20;
/// What one takes besides its claims, nearly: its hash, its fields, and moka's own nodes.
const ENTRY_BYTES: u32 = 300;
/// Secrets of no session, held so that a browser with an old cookie costs the database nothing.
const UNKNOWN_ENTRIES: u64 = 10_000;
/// How long such a secret stays unknown.
const UNKNOWN_LIFE: Duration = Duration::from_secs(5);
/// How often a row is written again where a write of another process was under way: on clusters one write of a small
/// table goes after the other.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(25);

/// Sessions as one process knows them.
pub(super) struct Sessions {
    known: Cache<SecretHash, Arc<Known>>,
    unknown: Cache<SecretHash, ()>,
}

/// A session that was not ended. It may be over by the clock.
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
    /// Sessions held, bytes they take, and bytes they may take.
    pub(super) fn sizes(&self) -> (u64, u64, u64) {
        self.known.run_pending_tasks();
        let entries = self.known.entry_count();
        (entries, self.known.weighted_size(), KNOWN_BYTES)
    }
}

/// Whom a new session shall stand for.
#[derive(Clone, Copy, Debug)]
pub enum NewSession<'a> {
    /// The bearer of this token, which is good.
    Token {
        /// Its secret.
        secret: &'a str,
        /// Its public identifier.
        id: &'a str,
    },
    /// Somebody for whom an identity provider vouches.
    Person {
        /// Who, in the provider's words that stay the same.
        id: &'a str,
        /// What is claimed of them, to be read again at every use; some kilobytes.
        claims: &'a str,
    },
}

/// A session that began. The only time its secret is seen.
#[derive(Clone, Debug)]
pub struct Started {
    /// What the browser sends from now on.
    pub secret: Secret,
    /// When it ends by itself, Unix milliseconds.
    pub expires_at_ms: i64,
}

/// What the secret of a session turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Session {
    /// Of a session that goes on.
    Good {
        /// Whom it stands for.
        stands_for: StandsFor,
        /// When it ends by itself, Unix milliseconds.
        expires_at_ms: i64,
    },
    /// Of no session, or of one that ended, or whose token was revoked or has ended.
    Over,
}

/// Whom a session stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StandsFor {
    /// A token, as it is now.
    Token(Arc<Credential>),
    /// What is claimed of a person, as it was given when the session began.
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

/// Ends sessions: the columns of their newest rows again, as ended now.
const END: &str = "INSERT INTO sessions (secret_hash, version, holder, token_hash, claims, created_at, expires_at, ended_at) \
    SELECT secret_hash, greatest({now:UInt64}, version + 1), holder, token_hash, '', created_at, expires_at, now64(3) \
    FROM sessions FINAL WHERE ended_at IS NULL AND ";
const THIS: &str = "secret_hash = {hash:String}";
/// All of a holder but the newest.
const OLDEST: &str = "secret_hash IN (SELECT secret_hash FROM sessions FINAL \
    WHERE holder = {holder:String} AND ended_at IS NULL AND expires_at > now64(3) \
    ORDER BY created_at DESC, secret_hash LIMIT {kept:UInt64}, 1000000)";

impl Credentials {
    /// Begins a session that ends at `expires_at_ms`; `now_ms` and it are Unix milliseconds. Every process of the
    /// deployment knows it when this returns. With [`SESSIONS_EACH`] of the same holder, the oldest of them ends.
    pub async fn start_session(
        &self,
        new: NewSession<'_>,
        now_ms: i64,
        expires_at_ms: i64,
    ) -> Result<Started, StoreError> {
        let secret = secrets::new_session();
        let hash = secrets::hash(secret.reveal());
        // Ids of tokens and of people are apart.
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

    /// Ends the oldest sessions of a holder where there is no room for one more.
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

    /// What is known of the secret of a session at `now_ms`, Unix milliseconds. An error only when it, or the token it
    /// stands for, is not in the cache and the database cannot be asked.
    pub async fn session(&self, secret: &str, now_ms: i64) -> Result<Session, StoreError> {
        let Some(known) = self.find_session(secrets::hash(secret)).await? else {
            return Ok(Session::Over);
        };
        if known.expires_at_ms <= now_ms {
            return Ok(Session::Over);
        }
        let stands_for = match &known.holder {
            Holder::Claims(claims) => StandsFor::Claims(claims.clone()),
            Holder::Token(hash) => match self.examine_hash(hash, now_ms).await? {
                Examined::Good(token) => StandsFor::Token(token),
                Examined::Expired { .. } | Examined::Unknown => return Ok(Session::Over),
            },
        };
        Ok(Session::Good {
            stands_for,
            expires_at_ms: known.expires_at_ms,
        })
    }

    /// Ends a session; false when it was over already. In this process it is refused from now on, in others as soon as
    /// they hear of it, or after their next refresh.
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

    /// Has every session looked up again.
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

    /// What is cached of the secret of a session: whether it is of one; `None` when it has to be looked up.
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

    /// Runs a statement that writes, again where it met another one.
    async fn write(&self, sql: &str, fill: impl Fn(Query) -> Query) -> Result<(), StoreError> {
        let limit = self.store().config.query_timeout;
        let mut tries = 0;
        loop {
            let mut query = self.store().client.query_raw(sql);
            if self.store().replicated().is_some() {
                // What it reads has to be what others wrote, also on a server that lags behind.
                query = query.with_setting("select_sequential_consistency", "1");
            }
            let written = fill(query).execute();
            let written = match tokio::time::timeout(limit, written).await {
                Ok(written) => written.map_err(StoreError::from),
                Err(_) => Err(StoreError::TimedOut(limit)),
            };
            match written {
                Err(StoreError::Overloaded { .. }) if tries < TRIES => tries += 1,
                outcome => return outcome,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
