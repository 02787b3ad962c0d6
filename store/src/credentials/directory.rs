//! The directory: looks credentials up by their secret.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clickhouse::Row;
use moka::sync::Cache;
use schemas::credential::{Credential, Role};
use schemas::ids::{AppId, ProjectId};
use serde::Deserialize;
use tokio::sync::{Mutex, Semaphore, SemaphorePermit, watch};

use super::failures::{FAILURES_PER_MINUTE, Failures};
use super::records::{ProjectRecord, scope_of};
use super::secrets::{self, SecretHash};
use super::sessions::Sessions;
use crate::client::Store;
use crate::error::StoreError;
use crate::platform::claims::Turns;

/// Cached credentials. Beyond it the least used are looked up again.
const KNOWN_ENTRIES: u64 = 100_000;
/// Approximate bytes of one: its hash, its names, and moka's own nodes.
const ENTRY_BYTES: u64 = 300;
/// Cached unknown secrets, so that a client with a wrong one costs the database nothing.
const UNKNOWN_ENTRIES: u64 = 10_000;
/// How long an unknown secret is cached, so how long a key created by another process may be rejected.
const UNKNOWN_LIFE: Duration = Duration::from_secs(5);
/// Concurrent look-ups in the database: guessing secrets must not crowd out reads.
const LOOKUPS: usize = 4;
/// Queued look-ups; further ones fail at once, so that a flood of unknown secrets blocks no requests.
const LOOKUPS_WAITING: usize = 64;

/// The directory of credentials. Cheap to clone; all clones share their caches.
#[derive(Clone)]
pub struct Credentials {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    known: Cache<SecretHash, Arc<Credential>>,
    unknown: Cache<SecretHash, ()>,
    sessions: Sessions,
    keyless: RwLock<Arc<HashMap<String, Keyless>>>,
    /// Number of observed changes: what was read before a change must not enter the cache after it. An insertion holds
    /// the read lock, so that a change is ordered before or after it.
    generation: RwLock<u64>,
    /// Number of changes that this process made in the tables.
    made_here: watch::Sender<u64>,
    /// Number of changes of the known credentials, local and remote.
    known_changes: watch::Sender<u64>,
    /// State of the tables at the last reload. Locked while reading them: an older reading must not replace a newer
    /// one.
    seen: Mutex<Option<Marks>>,
    lookups: Semaphore,
    /// Turns for changes that consist of a read and a write.
    turns: Turns,
    /// Running and queued look-ups.
    queue: Semaphore,
    failures: Failures,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// A credential, by the hash of its secret.
pub(super) type Entry = (SecretHash, Arc<Credential>);

/// Held during a look-up.
pub(super) struct Turn<'a>(
    #[expect(dead_code, reason = "held")] SemaphorePermit<'a>,
    #[expect(dead_code, reason = "held")] SemaphorePermit<'a>,
);

/// Result of the look-up of a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretCheck {
    /// A valid credential.
    Valid(Arc<Credential>),
    /// An expired credential.
    Expired {
        /// Unix milliseconds.
        at_ms: i64,
    },
    /// No credential, or a revoked one.
    Unknown,
}

impl SecretCheck {
    /// The credential, if it is valid.
    pub fn valid(self) -> Option<Arc<Credential>> {
        match self {
            Self::Valid(credential) => Some(credential),
            Self::Expired { .. } | Self::Unknown => None,
        }
    }
}

/// The project that accepts an app's events without a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyless {
    pub project: ProjectId,
    pub default_app: AppId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheStats {
    /// Cached credentials and sessions.
    pub entries: u64,
    /// Requests answered from the cache.
    pub hits: u64,
    /// Requests that queried the database.
    pub misses: u64,
    /// Approximate bytes in use.
    pub used_bytes: u64,
    /// Maximum bytes.
    pub max_bytes: u64,
}

/// Changes whenever one of the tables does.
#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
struct Marks {
    projects: (u64, u64),
    keys: (u64, u64),
    tokens: (u64, u64),
    /// Ended sessions. New ones are looked up at their first use.
    ended: (u64, u64),
}

impl Marks {
    /// Whether keys, tokens and projects are unchanged.
    fn has_same_credentials(&self, other: &Self) -> bool {
        (self.projects, self.keys, self.tokens) == (other.projects, other.keys, other.tokens)
    }
}

#[derive(Row, Deserialize)]
struct KeyRow {
    secret_hash: String,
    id: String,
    project_id: String,
    default_app: String,
    scopes: Vec<String>,
}

#[derive(Row, Deserialize)]
struct TokenRow {
    secret_hash: String,
    id: String,
    name: String,
    role: String,
    projects: Vec<String>,
    expires_at: Option<i64>,
}

const KEYS: &str = "SELECT k.secret_hash, k.id, k.project_id, p.default_app, k.scopes FROM \
    (SELECT secret_hash, id, project_id, scopes FROM api_keys FINAL \
     WHERE revoked_at IS NULL AND {hash:String} IN ('', secret_hash)) AS k \
    INNER JOIN (SELECT project_id, default_app FROM projects FINAL) AS p ON p.project_id = k.project_id \
    LIMIT 90000";
/// Recently expired tokens are loaded too, so that the error names the time of expiry. Tokens that expired long ago are
/// not: they stay in the table for ever and must not crowd out the others.
const TOKENS: &str = "SELECT secret_hash, id, name, role, projects, expires_at FROM tokens FINAL \
    WHERE revoked_at IS NULL AND {hash:String} IN ('', secret_hash) \
      AND ({hash:String} != '' OR expires_at IS NULL OR expires_at > now() - INTERVAL 7 DAY) LIMIT 90000";
const MARKS: &str = "SELECT \
    (SELECT (count(), max(version)) FROM projects) AS projects, \
    (SELECT (count(), max(version)) FROM api_keys) AS keys, \
    (SELECT (count(), max(version)) FROM tokens) AS tokens, \
    (SELECT (countIf(ended_at IS NOT NULL), maxIf(version, ended_at IS NOT NULL)) FROM sessions) AS ended";

impl Credentials {
    /// An empty directory; [`Credentials::refresh`] fills it.
    pub fn new(store: Store) -> Self {
        Self::with_failures_per_minute(store, FAILURES_PER_MINUTE)
    }

    /// With another limit on failed look-ups per client address; 0 for none.
    pub fn with_failures_per_minute(store: Store, limit: u32) -> Self {
        let counted = store.metrics.credential_failures.clone();
        let inner = Inner {
            store,
            known: Cache::new(KNOWN_ENTRIES),
            unknown: Cache::builder()
                .max_capacity(UNKNOWN_ENTRIES)
                .time_to_live(UNKNOWN_LIFE)
                .build(),
            sessions: Sessions::default(),
            keyless: RwLock::default(),
            generation: RwLock::default(),
            made_here: watch::Sender::new(0),
            known_changes: watch::Sender::new(0),
            seen: Mutex::default(),
            lookups: Semaphore::new(LOOKUPS),
            turns: Turns::default(),
            queue: Semaphore::new(LOOKUPS + LOOKUPS_WAITING),
            failures: Failures::new(limit, counted),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    pub(super) fn store(&self) -> &Store {
        &self.inner.store
    }

    /// See [`Store::exclusively`].
    pub(super) async fn exclusively<T: Send + 'static>(
        &self,
        name: &'static str,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let inner = &self.inner;
        inner.store.exclusively(&inner.turns, name, work).await
    }

    /// The credential with this secret; `None` when it is unknown, revoked or expired. Fails only when the secret is
    /// not cached and the database is away.
    pub async fn authenticate(&self, secret: &str) -> Result<Option<Arc<Credential>>, StoreError> {
        Ok(self.check(secret, now_ms()).await?.valid())
    }

    /// The state of a secret at `now_ms`, Unix milliseconds. Expiry depends on the clock alone and costs no query.
    /// Fails as [`Credentials::authenticate`].
    pub async fn check(&self, secret: &str, now_ms: i64) -> Result<SecretCheck, StoreError> {
        self.check_hash(&secrets::hash(secret), now_ms).await
    }

    /// Examines a secret by its hash.
    pub(super) async fn check_hash(
        &self,
        hash: &SecretHash,
        now_ms: i64,
    ) -> Result<SecretCheck, StoreError> {
        Ok(match self.find(hash).await? {
            None => SecretCheck::Unknown,
            Some(credential) if credential.is_expired(now_ms) => SecretCheck::Expired {
                at_ms: credential.expires_at_ms().unwrap_or(now_ms),
            },
            Some(credential) => SecretCheck::Valid(credential),
        })
    }

    /// The credential of a secret, expired or not.
    async fn find(&self, hash: &SecretHash) -> Result<Option<Arc<Credential>>, StoreError> {
        if let Some(answer) = self.cached(hash) {
            self.inner.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(answer);
        }
        self.inner.misses.fetch_add(1, Ordering::Relaxed);
        let _turn = self.turn().await?;
        if let Some(answer) = self.cached(hash) {
            return Ok(answer);
        }
        let generation = *self.generation();
        let found = self
            .load(&hex::encode(hash))
            .await?
            .into_iter()
            .next()
            .map(|(_, credential)| credential);
        self.count(if found.is_some() {
            "database"
        } else {
            "nowhere"
        });
        let now = self.generation();
        if *now == generation {
            match &found {
                Some(credential) => self.inner.known.insert(*hash, credential.clone()),
                None => self.inner.unknown.insert(*hash, ()),
            }
        }
        drop(now);
        Ok(found)
    }

    /// Waits for the permit of a look-up.
    pub(super) async fn turn(&self) -> Result<Turn<'_>, StoreError> {
        let Ok(queued) = self.inner.queue.try_acquire() else {
            self.count("queue_full");
            return Err(StoreError::Overloaded {
                code: 0,
                message: "too many credentials are being looked up".to_owned(),
            });
        };
        let turn = self.inner.lookups.acquire().await;
        let turn = turn.map_err(|_| StoreError::Unavailable("closed".to_owned()))?;
        Ok(Turn(turn, queued))
    }

    /// Whether a secret belongs to a key or token, expired or not, as far as the cache knows; `None` when it has to be
    /// looked up.
    pub fn cached_secret(&self, secret: &str) -> Option<bool> {
        let hash = secrets::hash(secret);
        if self.inner.known.contains_key(&hash) {
            return Some(true);
        }
        self.inner.unknown.contains_key(&hash).then_some(false)
    }

    /// Failed look-ups by client address.
    pub fn failures(&self) -> &Failures {
        &self.inner.failures
    }

    pub(super) fn sessions(&self) -> &Sessions {
        &self.inner.sessions
    }

    pub(super) fn generation(&self) -> RwLockReadGuard<'_, u64> {
        let generation = self.inner.generation.read();
        generation.unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads in progress no longer enter the caches.
    pub(super) fn changed(&self) {
        let generation = self.inner.generation.write();
        *generation.unwrap_or_else(PoisonError::into_inner) += 1;
    }

    fn cached(&self, hash: &SecretHash) -> Option<Option<Arc<Credential>>> {
        if let Some(credential) = self.inner.known.get(hash) {
            self.count("cache");
            return Some(Some(credential));
        }
        self.inner.unknown.get(hash).map(|()| {
            self.count("cache_unknown");
            None
        })
    }

    pub(super) fn count(&self, found: &str) {
        self.inner
            .store
            .metrics
            .credential_lookups
            .with_label_values(&[found])
            .inc();
    }

    /// The project that accepts events of this app without a key.
    pub fn keyless(&self, app_id: &str) -> Option<Keyless> {
        let apps = self.inner.keyless.read().ok()?.clone();
        apps.get(app_id).cloned()
    }

    /// Whether any project accepts events without a key: a warning at start.
    pub fn has_keyless(&self) -> bool {
        self.inner.keyless.read().is_ok_and(|apps| !apps.is_empty())
    }

    /// Loads changes of other processes. Call it every few seconds; an error leaves everything unchanged.
    pub async fn refresh(&self) -> Result<(), StoreError> {
        let mut seen = self.inner.seen.lock().await;
        let marks: Marks = self.read(MARKS).one().await?;
        if seen.as_ref() == Some(&marks) {
            return Ok(());
        }
        let known = seen.as_ref();
        if !known.is_some_and(|known| known.has_same_credentials(&marks)) {
            self.take_over().await?;
        }
        if known.is_none_or(|known| known.ended != marks.ended) {
            self.forget_sessions();
        }
        *seen = Some(marks);
        Ok(())
    }

    /// Reloads everything, even if the tables look unchanged; no entry from before remains when this returns. While the
    /// database is away, known credentials stay: an order to clear caches must not turn a deployment that accepts
    /// events into one that rejects them (R1). They are reloaded as soon as possible.
    pub async fn clear(&self) -> Result<(), StoreError> {
        let mut seen = self.inner.seen.lock().await;
        // A request waits, so comparing the tables is left to the next refresh, which reloads once more.
        *seen = None;
        self.inner.unknown.invalidate_all();
        self.take_over().await?;
        // Only now, when they can be looked up again.
        self.forget_sessions();
        Ok(())
    }

    /// Changes when this process created, changed or revoked a credential, so that it is published to the others.
    pub fn made_here(&self) -> watch::Receiver<u64> {
        self.inner.made_here.subscribe()
    }

    /// Changes with the known credentials, whichever process changed them.
    pub fn known_changes(&self) -> watch::Receiver<u64> {
        self.inner.known_changes.subscribe()
    }

    fn known_changed(&self) {
        self.inner.known_changes.send_modify(|count| *count += 1);
    }

    /// Loads what this process just wrote.
    pub(super) async fn reload(&self) -> Result<(), StoreError> {
        self.inner.made_here.send_modify(|count| *count += 1);
        self.changed();
        self.inner.unknown.invalidate_all();
        self.refresh().await
    }

    /// Replaces all cached entries by the tables' current ones. One at a time: see `seen`.
    async fn take_over(&self) -> Result<(), StoreError> {
        self.changed();
        let (active, projects) = futures::try_join!(self.load(""), self.projects())?;
        let active: HashMap<SecretHash, Arc<Credential>> = active.into_iter().collect();
        for (hash, _) in &self.inner.known {
            if !active.contains_key(&*hash) {
                self.inner.known.invalidate(&*hash);
            }
        }
        for (hash, credential) in active {
            self.inner.known.insert(hash, credential);
        }
        self.inner.unknown.invalidate_all();
        if let Ok(mut keyless) = self.inner.keyless.write() {
            *keyless = Arc::new(keyless_apps(&projects));
        }
        self.known_changed();
        Ok(())
    }

    /// Active credentials: the one with this hash, or all for an empty one.
    async fn load(&self, hash: &str) -> Result<Vec<Entry>, StoreError> {
        let keys = self.read(KEYS).param("hash", hash).rows::<KeyRow>();
        let tokens = self.read(TOKENS).param("hash", hash).rows::<TokenRow>();
        let (keys, tokens) = futures::try_join!(keys, tokens)?;
        let keys = keys.into_iter().filter_map(KeyRow::into_entry);
        Ok(keys
            .chain(tokens.into_iter().filter_map(TokenRow::into_entry))
            .collect())
    }

    pub(super) fn forget(&self, id: &str) {
        self.changed();
        for (hash, credential) in &self.inner.known {
            if credential.id() == id {
                self.inner.known.invalidate(&*hash);
            }
        }
        self.known_changed();
    }

    /// The valid API keys, and the apps that are accepted without one: what ingest needs.
    pub(super) fn reporters(&self) -> (Vec<Entry>, Arc<HashMap<String, Keyless>>) {
        let known = self.inner.known.iter();
        let keys = known.filter(|(_, credential)| matches!(**credential, Credential::Key { .. }));
        let keyless = self.inner.keyless.read().map(|apps| apps.clone());
        (
            keys.map(|(hash, key)| (*hash, key)).collect(),
            keyless.unwrap_or_default(),
        )
    }

    /// Uses these entries until the tables are read.
    pub(super) fn believe(&self, keys: Vec<Entry>, keyless: HashMap<String, Keyless>) {
        for (hash, key) in keys {
            self.inner.known.insert(hash, key);
        }
        if let Ok(mut held) = self.inner.keyless.write() {
            *held = Arc::new(keyless);
        }
    }

    pub fn stats(&self) -> CacheStats {
        self.inner.known.run_pending_tasks();
        let entries = self.inner.known.entry_count();
        let (sessions, session_bytes, session_bytes_max) = self.inner.sessions.sizes();
        CacheStats {
            entries: entries + sessions,
            hits: self.inner.hits.load(Ordering::Relaxed),
            misses: self.inner.misses.load(Ordering::Relaxed),
            used_bytes: entries * ENTRY_BYTES + session_bytes,
            max_bytes: KNOWN_ENTRIES * ENTRY_BYTES + session_bytes_max,
        }
    }
}

/// Apps accepted without a key. An app in two projects is accepted by neither, because its owner is ambiguous.
fn keyless_apps(projects: &[ProjectRecord]) -> HashMap<String, Keyless> {
    let mut claims: HashMap<&str, Vec<&ProjectRecord>> = HashMap::new();
    for project in projects {
        for app in &project.keyless_app_ids {
            claims.entry(app).or_default().push(project);
        }
    }
    let only = claims
        .into_iter()
        .filter_map(|(app, owners)| match owners[..] {
            [project] => Some((app, project)),
            _ => None,
        });
    only.map(|(app, project)| {
        let keyless = Keyless {
            project: ProjectId::new(project.project_id.as_str()),
            default_app: AppId::new(project.default_app.as_str()),
        };
        (app.to_owned(), keyless)
    })
    .collect()
}

impl KeyRow {
    fn into_entry(self) -> Option<(SecretHash, Arc<Credential>)> {
        let credential = Credential::Key {
            id: self.id,
            project: ProjectId::new(self.project_id),
            default_app: AppId::new(self.default_app),
            scopes: self
                .scopes
                .iter()
                .filter_map(|scope| scope_of(scope))
                .collect(),
        };
        Some((hash_of(&self.secret_hash)?, Arc::new(credential)))
    }
}

impl TokenRow {
    /// `None` for a role that this program does not know: it grants nothing.
    fn into_entry(self) -> Option<(SecretHash, Arc<Credential>)> {
        let limited = !self.projects.is_empty();
        let credential = Credential::Token {
            id: self.id,
            name: self.name,
            role: Role::named(&self.role)?,
            projects: limited.then(|| self.projects.into_iter().map(ProjectId::new).collect()),
            expires_at_ms: self.expires_at,
        };
        Some((hash_of(&self.secret_hash)?, Arc::new(credential)))
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(i64::MAX)
}

pub(super) fn hash_of(text: &str) -> Option<SecretHash> {
    let mut hash = [0; 32];
    hex::decode_to_slice(text, &mut hash).ok()?;
    Some(hash)
}
