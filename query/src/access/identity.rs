//! People for whom an identity provider vouches: its keys as they are kept, and tokens checked with them.
//!
//! The provider is asked for its keys when they are needed for the first time, behind a request when they are old, and
//! when a token names one that is not known. One question is under way at a time. While the provider is away the known
//! keys go on for a bounded time; what cannot be checked is refused as such, and never let in.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use moka::sync::Cache;
use prometheus::{IntCounterVec, Opts, Registry};
use schemas::control::CacheReport;
use schemas::credential::Credential;
use schemas::timestamp::UnixMs;
use sha2::{Digest, Sha256};
use tokio::sync::OwnedMutexGuard;

use super::claims::ClaimRules;
use super::jwks::{KeySet, NoKey};
use super::jwt::{Jwt, SigningAlgorithm};
use super::provider::Provider;
use crate::error::QueryError;

/// Time between two questions for a key that is not known: anybody can name one.
const UNKNOWN_KEY_PAUSE: Duration = Duration::from_secs(10);
/// Time between two questions after one that failed.
const AWAY_PAUSE: Duration = Duration::from_secs(2);
/// Tokens remembered to be good, so that a signature is computed once; each takes some kilobytes at most (X1).
const CHECKED_ENTRIES: u64 = 4096;
/// What one of them takes, nearly.
const CHECKED_BYTES: u64 = 1 << 10;

/// The provider that is trusted, and how far.
#[derive(Clone, Debug)]
pub struct IdentityConfig {
    /// What its tokens have to claim, and what that means.
    pub rules: ClaimRules,
    /// How its tokens may be signed.
    pub algorithms: Vec<SigningAlgorithm>,
    /// Keys older than this are asked for again.
    pub jwks_refresh: Duration,
    /// Keys older than this are not used: so long the provider may be away.
    pub jwks_max_age: Duration,
    /// For each question to the provider.
    pub timeout: Duration,
}

/// Why somebody is not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Denied {
    /// The token is not good, for this reason.
    Refused(String),
    /// The token cannot be checked now.
    Unavailable,
}

/// The identity provider as this process knows it. Clones share it.
#[derive(Clone)]
pub struct Identity(Arc<Inner>);

struct Inner {
    config: IdentityConfig,
    provider: Provider,
    metrics: IdentityMetrics,
    /// What ages are counted from: a clock that nobody sets.
    started: Instant,
    /// The keys that are known are asked for again before they are used, if that can be done.
    must_ask: AtomicBool,
    known: RwLock<Option<Arc<Known>>>,
    /// Held while the provider is asked.
    questions: Arc<tokio::sync::Mutex<Questions>>,
    /// Counts sets of keys, so that what was checked with an earlier one is checked again.
    sets: AtomicU64,
    /// Counts how often everything was forgotten: what the provider said before that is not kept after it.
    clears: AtomicU64,
    checked: Cache<[u8; 32], Checked>,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// The keys, since when, and which set this is.
struct Known {
    keys: KeySet,
    /// On the clock of [`Inner::started`].
    since: Duration,
    set: u64,
}

/// A token that was found good with a set of keys.
#[derive(Clone)]
struct Checked {
    set: u64,
    person: Arc<Credential>,
}

/// What the provider was asked, on the clock of [`Inner::started`].
#[derive(Default)]
struct Questions {
    /// When a question last failed, if none went well since.
    failed: Option<Duration>,
    /// When it was last asked for a key that is not known.
    unknown_key: Option<Duration>,
}

/// What is counted.
#[derive(Clone)]
pub(crate) struct IdentityMetrics {
    fetches: IntCounterVec,
    tokens: IntCounterVec,
}

impl IdentityMetrics {
    pub(crate) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str, outcomes: &[&str]| {
            let counter = IntCounterVec::new(Opts::new(name, help), &["outcome"])?;
            for outcome in outcomes {
                counter.with_label_values(&[outcome]);
            }
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        Ok(Self {
            fetches: counter(
                "spindle_query_identity_fetches_total",
                "Times the identity provider was asked for its keys, by whether it answered",
                &["answered", "failed"],
            )?,
            tokens: counter(
                "spindle_query_identity_tokens_total",
                "Tokens of the identity provider that were presented, by what became of them",
                &["good", "refused", "unavailable"],
            )?,
        })
    }
}

/// What to do with the keys there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Freshness {
    Good,
    /// Good, and somebody should ask for newer ones.
    Old,
    /// Not to be used.
    Gone,
}

fn freshness(age: Option<Duration>, config: &IdentityConfig) -> Freshness {
    match age {
        None => Freshness::Gone,
        Some(age) if age > config.jwks_max_age => Freshness::Gone,
        Some(age) if age > config.jwks_refresh => Freshness::Old,
        Some(_) => Freshness::Good,
    }
}

/// Whether something may be done at `now` that was last done at `last`.
fn is_due(last: Option<Duration>, now: Duration, pause: Duration) -> bool {
    last.is_none_or(|last| now.saturating_sub(last) >= pause)
}

impl Identity {
    pub(crate) fn new(
        config: IdentityConfig,
        metrics: IdentityMetrics,
    ) -> Result<Self, QueryError> {
        let provider = Provider::new(&config.rules.issuer, config.timeout)
            .map_err(|error| QueryError::Identity(error.to_string()))?;
        Ok(Self(Arc::new(Inner {
            config,
            provider,
            metrics,
            started: Instant::now(),
            must_ask: AtomicBool::new(false),
            known: RwLock::default(),
            questions: Arc::default(),
            sets: AtomicU64::new(0),
            clears: AtomicU64::new(0),
            checked: Cache::new(CHECKED_ENTRIES),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        })))
    }

    /// Asks for the keys before somebody needs them, and says in the log when that fails.
    pub async fn warm(&self) {
        let mut questions = self.0.questions.lock().await;
        // What went wrong is in the log.
        let _ = self.ask(&mut questions).await;
    }

    /// Forgets what was checked, and has the provider asked for its keys before the next token is. While the provider
    /// is away those that are known go on for their time: an order to empty caches must not lock people out.
    pub fn clear(&self) {
        let known = self.0.known.write().unwrap_or_else(PoisonError::into_inner);
        self.0.clears.fetch_add(1, Ordering::AcqRel);
        self.0.must_ask.store(true, Ordering::Release);
        self.0.checked.invalidate_all();
        drop(known);
    }

    /// What is kept of it in memory.
    pub fn report(&self) -> CacheReport {
        self.0.checked.run_pending_tasks();
        let entries = self.0.checked.entry_count();
        CacheReport {
            name: "identity_keys".to_owned(),
            entries,
            used_bytes: entries * CHECKED_BYTES,
            max_bytes: CHECKED_ENTRIES * CHECKED_BYTES,
            hits: self.0.hits.load(Ordering::Relaxed),
            misses: self.0.misses.load(Ordering::Relaxed),
        }
    }

    /// Who presents this token at `now_ms`.
    pub(super) async fn person(
        &self,
        token: &str,
        jwt: &Jwt<'_>,
        now_ms: UnixMs,
    ) -> Result<Arc<Credential>, Denied> {
        let answer = match self.remembered(token, now_ms) {
            Some(person) => Ok(person),
            None => self.check(token, jwt, now_ms).await,
        };
        let outcome = match &answer {
            Ok(_) => "good",
            Err(Denied::Refused(_)) => "refused",
            Err(Denied::Unavailable) => "unavailable",
        };
        let tokens = &self.0.metrics.tokens;
        tokens.with_label_values(&[outcome]).inc();
        answer
    }

    /// Whether this token was checked and is still good.
    pub(super) fn knows(&self, token: &str, now_ms: UnixMs) -> bool {
        self.known_person(token, now_ms).is_some()
    }

    /// What has to be kept of a token that was found good, so that who it is can be asked again without it; `None` for
    /// something else. Nobody can sign in with it.
    pub(super) fn kept(&self, token: &str) -> Option<String> {
        let claims = Jwt::of(token)?.claims()?;
        let kept = self.0.config.rules.kept(claims);
        Some(serde_json::Value::Object(kept).to_string())
    }

    /// Who it is of whom this was kept, if the claims still hold at `now_ms` and mean something by the settings there
    /// are now; otherwise why they do not.
    pub(super) fn person_again(&self, kept: &str, now_ms: UnixMs) -> Result<Credential, String> {
        let claims = serde_json::from_str(kept).map_err(|_| "it holds no claims".to_owned())?;
        self.0.config.rules.person(&claims, now_ms)
    }

    /// Who it is if that was found out with the keys that are in force, and has not ended.
    fn remembered(&self, token: &str, now_ms: UnixMs) -> Option<Arc<Credential>> {
        let person = self.known_person(token, now_ms)?;
        self.0.hits.fetch_add(1, Ordering::Relaxed);
        Some(person)
    }

    fn known_person(&self, token: &str, now_ms: UnixMs) -> Option<Arc<Credential>> {
        let known = self.usable()?;
        let checked = self.0.checked.get(&hash(token))?;
        if checked.set != known.set || checked.person.is_expired(now_ms) {
            return None;
        }
        Some(checked.person)
    }

    /// Claims first: they cost little, and a token that cannot be good anyway has nobody asked for its key.
    async fn check(
        &self,
        token: &str,
        jwt: &Jwt<'_>,
        now_ms: UnixMs,
    ) -> Result<Arc<Credential>, Denied> {
        self.0.misses.fetch_add(1, Ordering::Relaxed);
        let config = &self.0.config;
        let refused = |why: &str| Denied::Refused(why.to_owned());
        let algorithm = jwt.algorithm(&config.algorithms).map_err(refused)?;
        let claims = jwt
            .claims()
            .ok_or_else(|| refused("the token holds no claims"))?;
        let person = config
            .rules
            .person(&claims, now_ms)
            .map_err(Denied::Refused)?;
        let mut known = self.keys().await?;
        let mut picked = known.keys.pick(jwt.key_id(), algorithm);
        if matches!(picked, Err(NoKey::Unknown)) {
            known = self.newer_keys(&known).await?;
            picked = known.keys.pick(jwt.key_id(), algorithm);
        }
        let key = picked.map_err(|why| {
            refused(match why {
                NoKey::Unknown => "the token is signed with a key that its issuer does not publish",
                NoKey::DoesNotFit => {
                    "the token is signed in a way (`alg`) that is not that of its key"
                }
                NoKey::NotNamed => "the token does not name its key (`kid`)",
            })
        })?;
        let message = jwt.message.as_bytes();
        let verified = jsonwebtoken::crypto::verify(jwt.signature, message, &key, algorithm);
        if !matches!(verified, Ok(true)) {
            return Err(refused("the signature of the token is wrong"));
        }
        let person = Arc::new(person);
        let checked = Checked {
            set: known.set,
            person: person.clone(),
        };
        self.0.checked.insert(hash(token), checked);
        Ok(person)
    }

    /// The keys there are, if they may be used.
    fn usable(&self) -> Option<Arc<Known>> {
        if self.0.must_ask.load(Ordering::Acquire) {
            return None;
        }
        let known = self.known()?;
        match freshness(Some(self.age(&known)), &self.0.config) {
            Freshness::Gone => None,
            Freshness::Good => Some(known),
            Freshness::Old => {
                self.refresh_behind();
                Some(known)
            }
        }
    }

    /// The keys there are, or those that the provider has now.
    async fn keys(&self) -> Result<Arc<Known>, Denied> {
        if let Some(known) = self.usable() {
            return Ok(known);
        }
        let questions = self.0.questions.clone().lock_owned().await;
        // Somebody else may have asked while this waited.
        if let Some(known) = self.usable() {
            return Ok(known);
        }
        let answer = if is_due(questions.failed, self.0.started.elapsed(), AWAY_PAUSE) {
            self.ask_aside(questions).await
        } else {
            Err(Denied::Unavailable)
        };
        answer.or_else(|denied| self.not_too_old().ok_or(denied))
    }

    /// The keys there are, if they may be used at all.
    fn not_too_old(&self) -> Option<Arc<Known>> {
        let known = self.known()?;
        let freshness = freshness(Some(self.age(&known)), &self.0.config);
        (freshness != Freshness::Gone).then_some(known)
    }

    /// Asks although whoever wants to know may go away: then the next one finds the answer.
    async fn ask_aside(
        &self,
        mut questions: OwnedMutexGuard<Questions>,
    ) -> Result<Arc<Known>, Denied> {
        let identity = self.clone();
        // It ends with the time-outs of the provider.
        let asked = tokio::spawn(async move { identity.ask(&mut questions).await });
        asked.await.unwrap_or(Err(Denied::Unavailable))
    }

    /// Keys newer than these, in which one was missed; the same when it was asked for others just now.
    async fn newer_keys(&self, seen: &Arc<Known>) -> Result<Arc<Known>, Denied> {
        let mut questions = self.0.questions.clone().lock_owned().await;
        if let Some(known) = self.usable().filter(|known| known.set != seen.set) {
            return Ok(known);
        }
        let now = self.0.started.elapsed();
        if !is_due(questions.unknown_key, now, UNKNOWN_KEY_PAUSE) {
            // A provider that is away may have the key.
            let is_away = questions.failed.is_some();
            return if is_away {
                Err(Denied::Unavailable)
            } else {
                Ok(seen.clone())
            };
        }
        questions.unknown_key = Some(now);
        self.ask_aside(questions).await
    }

    /// Asks for newer keys while requests go on with those there are, unless that is under way or failed just now.
    fn refresh_behind(&self) {
        let Ok(mut questions) = self.0.questions.clone().try_lock_owned() else {
            return;
        };
        if !is_due(questions.failed, self.0.started.elapsed(), AWAY_PAUSE) {
            return;
        }
        let identity = self.clone();
        // It ends with the time-outs of the provider.
        tokio::spawn(async move {
            // What went wrong is in the log.
            let _ = identity.ask(&mut questions).await;
        });
    }

    /// Asks the provider, and takes over what it says.
    async fn ask(&self, questions: &mut Questions) -> Result<Arc<Known>, Denied> {
        // Counts as failed until it has an answer.
        questions.failed = Some(self.0.started.elapsed());
        let clears = self.0.clears.load(Ordering::Acquire);
        let fetches = &self.0.metrics.fetches;
        match self.0.provider.keys().await {
            Ok(keys) => {
                fetches.with_label_values(&["answered"]).inc();
                tracing::debug!(identity.keys = keys.len(), "keys of the identity provider");
                let known = Arc::new(Known {
                    keys,
                    since: self.0.started.elapsed(),
                    set: self.0.sets.fetch_add(1, Ordering::Relaxed),
                });
                questions.failed = None;
                let mut kept = self.0.known.write().unwrap_or_else(PoisonError::into_inner);
                if self.0.clears.load(Ordering::Acquire) == clears {
                    *kept = Some(known.clone());
                    self.0.must_ask.store(false, Ordering::Release);
                }
                Ok(known)
            }
            Err(error) => {
                fetches.with_label_values(&["failed"]).inc();
                tracing::warn!(error.message = %error, "the identity provider does not tell its keys");
                questions.failed = Some(self.0.started.elapsed());
                Err(Denied::Unavailable)
            }
        }
    }

    fn known(&self) -> Option<Arc<Known>> {
        let known = self.0.known.read();
        known.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn age(&self, known: &Known) -> Duration {
        self.0.started.elapsed().saturating_sub(known.since)
    }
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests;
