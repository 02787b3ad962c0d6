//! The directory: from a presented secret to a credential.

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
use crate::claims::Turns;
use crate::client::Store;
use crate::error::StoreError;

/// Credentials held. Beyond it the least used are asked for again.
const KNOWN_ENTRIES: u64 = 100_000;
/// What one takes, nearly: its hash, its names, and moka's own nodes.
const ENTRY_BYTES: u64 = 300;
/// Secrets nobody knows, held so that a client with a wrong one costs the database nothing.
const UNKNOWN_ENTRIES: u64 = 10_000;
/// How long an unknown secret stays unknown, so how long a key made by another process may be refused.
const UNKNOWN_LIFE: Duration = Duration::from_secs(5);
/// Look-ups in the database at the same time: guessing secrets must not crowd out reads.
const LOOKUPS: usize = 4;
/// Look-ups that wait for one of those; further ones fail at once, so that a flood of unknown secrets holds no requests.
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
    /// Counts changes seen; what was read before a change must not enter the cache after it. Whoever puts something in
    /// holds it meanwhile, so that a change comes either before or after.
    generation: RwLock<u64>,
    /// Counts what this process itself changed in the tables.
    made_here: watch::Sender<u64>,
    /// Counts changes of what is known, whoever made them.
    known_changes: watch::Sender<u64>,
    /// What the tables looked like at the last reload. Held while reading them: an older reading must not replace a
    /// newer one.
    seen: Mutex<Option<Marks>>,
    lookups: Semaphore,
    /// Changes that are a look and then a write.
    turns: Turns,
    /// Look-ups under way and waiting.
    queue: Semaphore,
    failures: Failures,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// A credential, by the hash of its secret.
pub(super) type Entry = (SecretHash, Arc<Credential>);

/// Held while something is looked up.
pub(super) struct Turn<'a>(
    #[expect(dead_code, reason = "held")] SemaphorePermit<'a>,
    #[expect(dead_code, reason = "held")] SemaphorePermit<'a>,
);

/// What a presented secret turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Examined {
    /// Of a credential that is good now.
    Good(Arc<Credential>),
    /// Of one that ended by itself.
    Expired {
        /// When, Unix milliseconds.
        at_ms: i64,
    },
    /// Nobody's, or of one that was revoked.
    Unknown,
}

impl Examined {
    /// The credential, if it is good.
    pub fn good(self) -> Option<Arc<Credential>> {
        match self {
            Self::Good(credential) => Some(credential),
            Self::Expired { .. } | Self::Unknown => None,
        }
    }
}

/// The project that takes an app's events without a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyless {
    /// The project.
    pub project: ProjectId,
    /// Its default app.
    pub default_app: AppId,
}

/// How the cache is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheStats {
    /// Credentials and sessions held.
    pub entries: u64,
    /// Requests answered from the cache.
    pub hits: u64,
    /// Requests that had to ask the database.
    pub misses: u64,
    /// Bytes they take, nearly.
    pub used_bytes: u64,
    /// Bytes they may take.
    pub max_bytes: u64,
}

/// Changes whenever one of the tables does.
#[derive(Clone, Debug, PartialEq, Eq, Row, Deserialize)]
struct Marks {
    projects: (u64, u64),
    keys: (u64, u64),
    tokens: (u64, u64),
    /// Sessions that were ended. New ones are looked up when they are presented.
    ended: (u64, u64),
}

impl Marks {
    /// Whether keys, tokens and projects are as they were.
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
/// Those that ended lately are loaded too, so that their bearers are told that they ended; those that ended long ago are
/// not, since nobody takes them out of the table and they must not crowd out the others.
const TOKENS: &str = "SELECT secret_hash, id, name, role, projects, expires_at FROM tokens FINAL \
    WHERE revoked_at IS NULL AND {hash:String} IN ('', secret_hash) \
      AND ({hash:String} != '' OR expires_at IS NULL OR expires_at > now() - INTERVAL 7 DAY) LIMIT 90000";
const MARKS: &str = "SELECT \
    (SELECT (count(), max(version)) FROM projects) AS projects, \
    (SELECT (count(), max(version)) FROM api_keys) AS keys, \
    (SELECT (count(), max(version)) FROM tokens) AS tokens, \
    (SELECT (countIf(ended_at IS NOT NULL), maxIf(version, ended_at IS NOT NULL)) FROM sessions) AS ended";

impl Credentials {
    /// An empty directory over the store; [`Credentials::refresh`] fills it.
    pub fn new(store: Store) -> Self {
        Self::with_failures_per_minute(store, FAILURES_PER_MINUTE)
    }

    /// The same with another limit on failed look-ups per client address; 0 for none.
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

    /// Does work that no other process does at the same time under this name; see [`Store::exclusively`].
    pub(super) async fn exclusively<T: Send + 'static>(
        &self,
        name: &'static str,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let inner = &self.inner;
        inner.store.exclusively(&inner.turns, name, work).await
    }

    /// Whose secret this is; `None` when it is nobody's, was revoked or has ended. An error only when the secret is
    /// not in the cache and the database cannot be asked.
    pub async fn authenticate(&self, secret: &str) -> Result<Option<Arc<Credential>>, StoreError> {
        Ok(self.examine(secret, now_ms()).await?.good())
    }

    /// What is known of this secret at `now_ms`, Unix milliseconds. That a credential has ended is a matter of the clock
    /// alone: the database is not asked for it. An error as in [`Credentials::authenticate`].
    pub async fn examine(&self, secret: &str, now_ms: i64) -> Result<Examined, StoreError> {
        self.examine_hash(&secrets::hash(secret), now_ms).await
    }

    /// The same of a secret by its hash.
    pub(super) async fn examine_hash(
        &self,
        hash: &SecretHash,
        now_ms: i64,
    ) -> Result<Examined, StoreError> {
        Ok(match self.find(hash).await? {
            None => Examined::Unknown,
            Some(credential) if credential.is_expired(now_ms) => Examined::Expired {
                at_ms: credential.expires_at_ms().unwrap_or(now_ms),
            },
            Some(credential) => Examined::Good(credential),
        })
    }

    /// Whose secret this is, ended or not.
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

    /// A turn to look something up.
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

    /// What is cached of a secret: whether it is of a key or token, expired or not; `None` when it has to be looked up.
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

    /// Whatever is being read now enters no cache any more.
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

    /// The project that accepts events of this app without a key, if there is one.
    pub fn keyless(&self, app_id: &str) -> Option<Keyless> {
        let apps = self.inner.keyless.read().ok()?.clone();
        apps.get(app_id).cloned()
    }

    /// Whether any project accepts events without a key: worth a warning at start.
    pub fn has_keyless(&self) -> bool {
        self.inner.keyless.read().is_ok_and(|apps| !apps.is_empty())
    }

    /// Looks whether another process changed something, and takes it over. Call it every few seconds; an error
    /// leaves everything as it is.
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

    /// Reads everything again, even if the tables look as they did; nothing that was read before is held when this
    /// returns. While the database cannot be asked, what is known stays: an order to empty caches must not turn a
    /// deployment that takes events into one that refuses them (R1). It is read again as soon as that can be done.
    pub async fn clear(&self) -> Result<(), StoreError> {
        let mut seen = self.inner.seen.lock().await;
        // Somebody waits, so what the tables look like is left to the next refresh, which reads once more.
        *seen = None;
        self.inner.unknown.invalidate_all();
        self.take_over().await?;
        // Only now, when they can be looked up again.
        self.forget_sessions();
        Ok(())
    }

    /// Changes whenever this process made, changed or revoked something: others have to hear of it.
    pub fn made_here(&self) -> watch::Receiver<u64> {
        self.inner.made_here.subscribe()
    }

    /// Changes whenever what is known does, whoever changed it.
    pub fn known_changes(&self) -> watch::Receiver<u64> {
        self.inner.known_changes.subscribe()
    }

    fn known_changed(&self) {
        self.inner.known_changes.send_modify(|count| *count += 1);
    }

    /// Takes over what this process just wrote.
    pub(super) async fn reload(&self) -> Result<(), StoreError> {
        self.inner.made_here.send_modify(|count| *count += 1);
        self.changed();
        self.inner.unknown.invalidate_all();
        self.refresh().await
    }

    /// Replaces all that is held by what the tables say now. Only one at a time: see `seen`.
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

    /// Drops one credential from the cache.
    pub(super) fn forget(&self, id: &str) {
        self.changed();
        for (hash, credential) in &self.inner.known {
            if credential.id() == id {
                self.inner.known.invalidate(&*hash);
            }
        }
        self.known_changed();
    }

    /// The API keys that are good now, and the apps that are accepted without one: what reporting needs to know.
    pub(super) fn reporters(&self) -> (Vec<Entry>, Arc<HashMap<String, Keyless>>) {
        let known = self.inner.known.iter();
        let keys = known.filter(|(_, credential)| matches!(**credential, Credential::Key { .. }));
        let keyless = self.inner.keyless.read().map(|apps| apps.clone());
        (
            keys.map(|(hash, key)| (*hash, key)).collect(),
            keyless.unwrap_or_default(),
        )
    }

    /// Knows these until the tables are read.
    pub(super) fn believe(&self, keys: Vec<Entry>, keyless: HashMap<String, Keyless>) {
        for (hash, key) in keys {
            self.inner.known.insert(hash, key);
        }
        if let Ok(mut held) = self.inner.keyless.write() {
            *held = Arc::new(keyless);
        }
    }

    /// How the cache is doing.
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

/// Apps accepted without a key. An app that two projects claim is accepted by neither: nobody can say whose it is.
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
    /// `None` for a role this program does not know: it grants nothing.
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
