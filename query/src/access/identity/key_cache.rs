//! The keys of the identity provider, cached.
//!
//! They are fetched when they are first needed, in the background when they are older than `jwks_refresh`, and when a
//! token names an unknown key. One fetch runs at a time. While the provider is away, keys stay in use up to
//! `jwks_max_age`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use prometheus::IntCounterVec;
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::super::jwks::KeySet;
use super::super::provider::Provider;
use super::{Denied, IdentityConfig};

/// Time between two fetches for unknown keys: any client can name one.
const UNKNOWN_KEY_PAUSE: Duration = Duration::from_secs(10);
/// Time between a failed fetch and the next one.
const AWAY_PAUSE: Duration = Duration::from_secs(2);

/// The cached keys of one provider. Clones share them.
#[derive(Clone)]
pub(super) struct KeyCache(Arc<Inner>);

struct Inner {
    provider: Provider,
    refresh: Duration,
    max_age: Duration,
    /// Counts fetches by outcome.
    fetches: IntCounterVec,
    /// Ages are measured from here, on a monotonic clock.
    started: Instant,
    /// After [`KeyCache::clear`]: fetch before the cached keys are used, if the provider answers.
    is_stale: AtomicBool,
    keys: RwLock<Option<Arc<CachedKeys>>>,
    /// Held during a fetch.
    fetch: Arc<Mutex<Fetches>>,
    /// Numbers the fetched sets.
    generations: AtomicU64,
    /// Number of clears: a fetch that began before a clear is not cached after it.
    clears: AtomicU64,
}

/// A fetched set of keys.
pub(super) struct CachedKeys {
    pub(super) keys: KeySet,
    pub(super) generation: u64,
    /// Since [`Inner::started`].
    fetched: Duration,
}

/// Times of past fetches, since [`Inner::started`].
#[derive(Default)]
struct Fetches {
    /// The last failure, if no fetch succeeded since.
    failed: Option<Duration>,
    /// The last fetch for an unknown key.
    unknown_key: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Freshness {
    Fresh,
    /// Usable, and due for a refresh.
    Old,
    Expired,
}

/// Whether `pause` has passed between `last` and `now`.
fn is_due(last: Option<Duration>, now: Duration, pause: Duration) -> bool {
    last.is_none_or(|last| now.saturating_sub(last) >= pause)
}

impl KeyCache {
    pub(super) fn new(config: &IdentityConfig, provider: Provider, fetches: IntCounterVec) -> Self {
        Self(Arc::new(Inner {
            provider,
            refresh: config.jwks_refresh,
            max_age: config.jwks_max_age,
            fetches,
            started: Instant::now(),
            is_stale: AtomicBool::new(false),
            keys: RwLock::default(),
            fetch: Arc::default(),
            generations: AtomicU64::new(0),
            clears: AtomicU64::new(0),
        }))
    }

    /// Fetches the keys now. Logs a failure.
    pub(super) async fn warm(&self) {
        let mut fetches = self.0.fetch.lock().await;
        let _ = self.fetch(&mut fetches).await;
    }

    /// Fetches before the next use. While the provider is away the cached keys stay in use: clearing caches must not
    /// lock users out.
    pub(super) fn clear(&self) {
        let keys = self.0.keys.write().unwrap_or_else(PoisonError::into_inner);
        self.0.clears.fetch_add(1, Ordering::AcqRel);
        self.0.is_stale.store(true, Ordering::Release);
        drop(keys);
    }

    /// The cached keys, if they can be used without a fetch. Starts a refresh in the background where one is due.
    pub(super) fn usable(&self) -> Option<Arc<CachedKeys>> {
        if self.0.is_stale.load(Ordering::Acquire) {
            return None;
        }
        let cached = self.cached()?;
        match self.freshness(&cached) {
            Freshness::Expired => None,
            Freshness::Fresh => Some(cached),
            Freshness::Old => {
                self.refresh_in_background();
                Some(cached)
            }
        }
    }

    /// The cached keys, or fetched ones.
    pub(super) async fn get(&self) -> Result<Arc<CachedKeys>, Denied> {
        if let Some(cached) = self.usable() {
            return Ok(cached);
        }
        let fetches = self.0.fetch.clone().lock_owned().await;
        // Another request may have fetched them meanwhile.
        if let Some(cached) = self.usable() {
            return Ok(cached);
        }
        let fetched = if is_due(fetches.failed, self.0.started.elapsed(), AWAY_PAUSE) {
            self.fetch_in_task(fetches).await
        } else {
            Err(Denied::Unavailable)
        };
        let unexpired = || {
            let cached = self.cached()?;
            (self.freshness(&cached) != Freshness::Expired).then_some(cached)
        };
        fetched.or_else(|denied| unexpired().ok_or(denied))
    }

    /// Keys newer than `seen`, which lacks a key; `seen` itself within [`UNKNOWN_KEY_PAUSE`] of the last such fetch.
    pub(super) async fn newer(&self, seen: &Arc<CachedKeys>) -> Result<Arc<CachedKeys>, Denied> {
        let mut fetches = self.0.fetch.clone().lock_owned().await;
        let is_newer = |cached: &Arc<CachedKeys>| cached.generation != seen.generation;
        if let Some(cached) = self.usable().filter(is_newer) {
            return Ok(cached);
        }
        let now = self.0.started.elapsed();
        if !is_due(fetches.unknown_key, now, UNKNOWN_KEY_PAUSE) {
            // A provider that is away may have the key.
            return match fetches.failed {
                Some(_) => Err(Denied::Unavailable),
                None => Ok(seen.clone()),
            };
        }
        fetches.unknown_key = Some(now);
        self.fetch_in_task(fetches).await
    }

    /// Fetches in a task of its own, so that the result is cached even when the client disconnects. The task ends within
    /// the timeouts of the provider.
    async fn fetch_in_task(
        &self,
        mut fetches: OwnedMutexGuard<Fetches>,
    ) -> Result<Arc<CachedKeys>, Denied> {
        let cache = self.clone();
        let task = tokio::spawn(async move { cache.fetch(&mut fetches).await });
        task.await.unwrap_or(Err(Denied::Unavailable))
    }

    /// Does nothing while a fetch runs, and shortly after one failed. The task ends within the timeouts of the provider.
    fn refresh_in_background(&self) {
        let Ok(mut fetches) = self.0.fetch.clone().try_lock_owned() else {
            return;
        };
        if !is_due(fetches.failed, self.0.started.elapsed(), AWAY_PAUSE) {
            return;
        }
        let cache = self.clone();
        tokio::spawn(async move {
            // Logs a failure.
            let _ = cache.fetch(&mut fetches).await;
        });
    }

    async fn fetch(&self, fetches: &mut Fetches) -> Result<Arc<CachedKeys>, Denied> {
        // Also counts as failed when this future is dropped.
        fetches.failed = Some(self.0.started.elapsed());
        let clears = self.0.clears.load(Ordering::Acquire);
        match self.0.provider.keys().await {
            Ok(keys) => {
                self.0.fetches.with_label_values(&["answered"]).inc();
                tracing::debug!(identity.keys = keys.len(), "keys of the identity provider");
                let fetched = Arc::new(CachedKeys {
                    keys,
                    generation: self.0.generations.fetch_add(1, Ordering::Relaxed),
                    fetched: self.0.started.elapsed(),
                });
                fetches.failed = None;
                let mut cached = self.0.keys.write().unwrap_or_else(PoisonError::into_inner);
                if self.0.clears.load(Ordering::Acquire) == clears {
                    *cached = Some(fetched.clone());
                    self.0.is_stale.store(false, Ordering::Release);
                }
                Ok(fetched)
            }
            Err(error) => {
                self.0.fetches.with_label_values(&["failed"]).inc();
                tracing::warn!(error.message = %error, "the keys of the identity provider could not be fetched");
                fetches.failed = Some(self.0.started.elapsed());
                Err(Denied::Unavailable)
            }
        }
    }

    fn cached(&self) -> Option<Arc<CachedKeys>> {
        let keys = self.0.keys.read();
        keys.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn freshness(&self, cached: &CachedKeys) -> Freshness {
        let age = self.0.started.elapsed().saturating_sub(cached.fetched);
        if age > self.0.max_age {
            Freshness::Expired
        } else if age > self.0.refresh {
            Freshness::Old
        } else {
            Freshness::Fresh
        }
    }
}
