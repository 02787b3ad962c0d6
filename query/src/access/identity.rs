//! Users of an identity provider: checks their JWTs with the provider's keys.
//!
//! A token that cannot be checked is rejected as unavailable, and never accepted.

mod key_cache;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use moka::sync::Cache;
use prometheus::{IntCounterVec, Opts, Registry};
use schemas::control::CacheReport;
use schemas::credential::Credential;
use schemas::timestamp::UnixMs;
use sha2::{Digest, Sha256};

use super::claims::ClaimRules;
use super::jwks::NoKey;
use super::jwt::{Jwt, SigningAlgorithm};
use super::provider::Provider;
use crate::error::QueryError;
use key_cache::KeyCache;

/// Cached valid tokens, so that a signature is computed once; each takes some kilobytes at most (X1).
const CHECKED_ENTRIES: u64 = 4096;
/// Approximate size of an entry.
const CHECKED_BYTES: u64 = 1 << 10;

/// Settings of the identity provider.
#[derive(Clone, Debug)]
pub struct IdentityConfig {
    pub rules: ClaimRules,
    /// Signature algorithms that are accepted.
    pub algorithms: Vec<SigningAlgorithm>,
    /// Keys older than this are refreshed in the background.
    pub jwks_refresh: Duration,
    /// Keys older than this are not used: the longest outage of the provider that is tolerated.
    pub jwks_max_age: Duration,
    /// Bound on one request to the provider.
    pub timeout: Duration,
}

/// Why a token is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Denied {
    /// The token is invalid, for this reason.
    Rejected(String),
    /// The token cannot be checked now.
    Unavailable,
}

/// The identity provider. Clones share it.
#[derive(Clone)]
pub struct Identity(Arc<Inner>);

struct Inner {
    config: IdentityConfig,
    keys: KeyCache,
    /// Counts tokens by outcome.
    tokens: IntCounterVec,
    checked: Cache<[u8; 32], Checked>,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// A token that was valid with this generation of keys.
#[derive(Clone)]
struct Checked {
    generation: u64,
    person: Arc<Credential>,
}

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
                "Fetches of the keys of the identity provider, by outcome",
                &["answered", "failed"],
            )?,
            tokens: counter(
                "spindle_query_identity_tokens_total",
                "Checked tokens of the identity provider, by outcome",
                &["good", "refused", "unavailable"],
            )?,
        })
    }
}

impl Identity {
    pub(crate) fn new(
        config: IdentityConfig,
        metrics: IdentityMetrics,
    ) -> Result<Self, QueryError> {
        let provider = Provider::new(&config.rules.issuer, config.timeout)
            .map_err(|error| QueryError::Identity(error.to_string()))?;
        Ok(Self(Arc::new(Inner {
            keys: KeyCache::new(&config, provider, metrics.fetches),
            config,
            tokens: metrics.tokens,
            checked: Cache::new(CHECKED_ENTRIES),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        })))
    }

    /// Fetches the keys before the first request needs them. Logs a failure.
    pub async fn warm(&self) {
        self.0.keys.warm().await;
    }

    /// Evicts the checked tokens, and fetches the keys before the next token is checked. While the provider is away
    /// the cached keys stay in use.
    pub fn clear(&self) {
        self.0.keys.clear();
        self.0.checked.invalidate_all();
    }

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

    /// Authenticates a JWT at `now_ms`.
    pub(super) async fn person(
        &self,
        token: &str,
        jwt: &Jwt<'_>,
        now_ms: UnixMs,
    ) -> Result<Arc<Credential>, Denied> {
        let checked = match self.cached_person(token, now_ms) {
            Some(person) => {
                self.0.hits.fetch_add(1, Ordering::Relaxed);
                Ok(person)
            }
            None => self.check(token, jwt, now_ms).await,
        };
        let outcome = match &checked {
            Ok(_) => "good",
            Err(Denied::Rejected(_)) => "refused",
            Err(Denied::Unavailable) => "unavailable",
        };
        self.0.tokens.with_label_values(&[outcome]).inc();
        checked
    }

    /// Whether this token was checked before and is still valid.
    pub(super) fn is_cached(&self, token: &str, now_ms: UnixMs) -> bool {
        self.cached_person(token, now_ms).is_some()
    }

    /// The claims of a checked token that a session stores to authenticate without the token; `None` for anything but
    /// a JWT. They are not a credential.
    pub(super) fn session_claims(&self, token: &str) -> Option<String> {
        let claims = Jwt::parse(token)?.claims()?;
        let needed = self.0.config.rules.needed(claims);
        Some(serde_json::Value::Object(needed).to_string())
    }

    /// Authenticates stored claims at `now_ms`, by the current settings.
    ///
    /// # Errors
    /// Why the claims are not valid any more.
    pub(super) fn person_from_claims(
        &self,
        claims: &str,
        now_ms: UnixMs,
    ) -> Result<Credential, String> {
        let claims = serde_json::from_str(claims).map_err(|error| error.to_string())?;
        self.0.config.rules.person(&claims, now_ms)
    }

    fn cached_person(&self, token: &str, now_ms: UnixMs) -> Option<Arc<Credential>> {
        let keys = self.0.keys.usable()?;
        let checked = self.0.checked.get(&hash(token))?;
        if checked.generation != keys.generation || checked.person.is_expired(now_ms) {
            return None;
        }
        Some(checked.person)
    }

    /// Checks the claims first: that is cheap, and a token with invalid claims causes no fetch of keys.
    async fn check(
        &self,
        token: &str,
        jwt: &Jwt<'_>,
        now_ms: UnixMs,
    ) -> Result<Arc<Credential>, Denied> {
        self.0.misses.fetch_add(1, Ordering::Relaxed);
        let config = &self.0.config;
        let rejected = |reason: &str| Denied::Rejected(reason.to_owned());
        let algorithm = jwt.algorithm(&config.algorithms).map_err(rejected)?;
        let claims = jwt
            .claims()
            .ok_or_else(|| rejected("the token has no claims"))?;
        let person = config
            .rules
            .person(&claims, now_ms)
            .map_err(Denied::Rejected)?;
        let mut cached = self.0.keys.get().await?;
        let mut picked = cached.keys.pick(jwt.key_id(), algorithm);
        if matches!(picked, Err(NoKey::Unknown)) {
            cached = self.0.keys.newer(&cached).await?;
            picked = cached.keys.pick(jwt.key_id(), algorithm);
        }
        let key = picked.map_err(|error| {
            rejected(match error {
                NoKey::Unknown => "the token is signed with a key that its issuer does not publish",
                NoKey::WrongAlgorithm => "`alg` of the token is not an algorithm of its key",
                NoKey::NotNamed => "the token does not name its key (`kid`)",
            })
        })?;
        let message = jwt.message.as_bytes();
        let verified = jsonwebtoken::crypto::verify(jwt.signature, message, &key, algorithm);
        if !matches!(verified, Ok(true)) {
            return Err(rejected("the signature of the token is wrong"));
        }
        let person = Arc::new(person);
        let checked = Checked {
            generation: cached.generation,
            person: person.clone(),
        };
        self.0.checked.insert(hash(token), checked);
        Ok(person)
    }
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}
