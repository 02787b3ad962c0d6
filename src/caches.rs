//! What this process caches: one list of named caches, to be shown, measured and cleared together.
//!
//! Each cache is added here in one line. Everything that only makes the program faster belongs in the list, counters do
//! not: the rates of ingest are kept in a map too, but clearing it would give every client a full burst again.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use anyhow::Context;
use futures::future::join_all;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};
use schemas::control::CacheReport;
use store::StoreError;

/// Closed, because it is a label of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheName {
    /// API keys, tokens, and the settings of their projects.
    Credentials,
    Prices,
    /// Recently touched runs, in a processor.
    HotRuns,
    /// Builds of applications, with their processes and compiled JSON Schemas.
    Builds,
    /// Keys of the identity provider.
    IdentityKeys,
}

impl CacheName {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Credentials => "credentials",
            Self::Prices => "prices",
            Self::HotRuns => "hot_runs",
            Self::Builds => "builds",
            Self::IdentityKeys => "identity_keys",
        }
    }
}

type Clearing = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>;

#[derive(Clone)]
struct Cached {
    name: CacheName,
    report: Arc<dyn Fn() -> CacheReport + Send + Sync>,
    clear: Arc<dyn Fn() -> Clearing + Send + Sync>,
}

/// The caches of a process. Clones share the list.
#[derive(Clone)]
pub(crate) struct Caches {
    list: Arc<RwLock<Vec<Cached>>>,
    clears: IntCounterVec,
}

impl Caches {
    /// An empty list, with metrics in this registry.
    pub(crate) fn new(registry: &Registry) -> anyhow::Result<Self> {
        let clears = IntCounterVec::new(
            Opts::new(
                "spindle_cache_clears_total",
                "Times a cache was emptied by order",
            ),
            &["cache"],
        )?;
        let caches = Self {
            list: Arc::default(),
            clears,
        };
        registry
            .register(Box::new(caches.clears.clone()))
            .context("duplicate metrics of caches")?;
        registry
            .register(Box::new(Figures::new(caches.clone())?))
            .context("duplicate metrics of caches")?;
        Ok(caches)
    }

    /// Adds a cache that is empty when `clear` returns. `clear` also has to prevent that a read in progress fills the
    /// cache afterwards. The name in the report is ignored.
    pub(crate) fn add(
        &self,
        name: CacheName,
        report: impl Fn() -> CacheReport + Send + Sync + 'static,
        clear: impl Fn() + Send + Sync + 'static,
    ) {
        self.add_read_again(name, report, move || {
            clear();
            std::future::ready(Ok(()))
        });
    }

    /// Adds a cache that holds no old entry once the future of `clear` has ended without an error. After an error it
    /// may.
    pub(crate) fn add_read_again<F>(
        &self,
        name: CacheName,
        report: impl Fn() -> CacheReport + Send + Sync + 'static,
        clear: impl Fn() -> F + Send + Sync + 'static,
    ) where
        F: Future<Output = Result<(), StoreError>> + Send + 'static,
    {
        let cached = Cached {
            name,
            report: Arc::new(report),
            clear: Arc::new(move || Box::pin(clear())),
        };
        // Exported before the first clear.
        self.clears.with_label_values(&[name.as_str()]);
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        list.retain(|known| known.name != name);
        list.push(cached);
    }

    fn list(&self) -> Vec<Cached> {
        let list = self.list.read().unwrap_or_else(PoisonError::into_inner);
        list.clone()
    }

    pub(crate) fn reports(&self) -> Vec<CacheReport> {
        let list = self.list();
        let reports = list.iter().map(|cached| CacheReport {
            name: cached.name.as_str().to_owned(),
            ..(cached.report)()
        });
        reports.collect()
    }

    /// Clears all caches concurrently; `false` if one may still hold an old entry, which is then logged.
    pub(crate) async fn clear(&self) -> bool {
        let list = self.list();
        let cleared = list.iter().map(async |cached| {
            let outcome = (cached.clear)().await;
            match &outcome {
                Ok(()) => self.clears.with_label_values(&[cached.name.as_str()]).inc(),
                Err(error) => {
                    tracing::warn!(error.message = %error, cache.name = cached.name.as_str(), "a cache could not be reloaded; it is reloaded as soon as possible");
                }
            }
            outcome.is_ok()
        });
        let cleared: Vec<bool> = join_all(cleared).await;
        cleared.into_iter().all(|is_cleared| is_cleared)
    }
}

/// Metrics of caches, collected at each scrape.
struct Figures {
    caches: Caches,
    entries: IntGaugeVec,
    used_bytes: IntGaugeVec,
    hits: IntCounterVec,
    misses: IntCounterVec,
    /// One scrape at a time, because each sets the counters again.
    turn: Mutex<()>,
}

impl Figures {
    fn new(caches: Caches) -> prometheus::Result<Self> {
        let gauge = |name, help| IntGaugeVec::new(Opts::new(name, help), &["cache"]);
        let counter = |name, help| IntCounterVec::new(Opts::new(name, help), &["cache"]);
        Ok(Self {
            caches,
            entries: gauge("spindle_cache_entries", "Entries of a cache")?,
            used_bytes: gauge("spindle_cache_used_bytes", "Memory of a cache, nearly")?,
            hits: counter(
                "spindle_cache_hits_total",
                "Look-ups in a cache that found something",
            )?,
            misses: counter(
                "spindle_cache_misses_total",
                "Look-ups in a cache that found nothing",
            )?,
            turn: Mutex::default(),
        })
    }
}

impl Collector for Figures {
    fn desc(&self) -> Vec<&Desc> {
        let gauges = [&self.entries, &self.used_bytes].into_iter();
        let counters = [&self.hits, &self.misses].into_iter();
        let gauges = gauges.flat_map(|gauge| gauge.desc());
        gauges
            .chain(counters.flat_map(|counter| counter.desc()))
            .collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        for report in self.caches.reports() {
            let label = [report.name.as_str()];
            let shown = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
            let entries = self.entries.with_label_values(&label);
            entries.set(shown(report.entries));
            let used = self.used_bytes.with_label_values(&label);
            used.set(shown(report.used_bytes));
            for (counter, value) in [(&self.hits, report.hits), (&self.misses, report.misses)] {
                let counter = counter.with_label_values(&label);
                counter.reset();
                counter.inc_by(value);
            }
        }
        let gauges = [&self.entries, &self.used_bytes].into_iter();
        let counters = [&self.hits, &self.misses].into_iter();
        let gauges = gauges.flat_map(|gauge| gauge.collect());
        gauges
            .chain(counters.flat_map(|counter| counter.collect()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use prometheus::TextEncoder;

    use super::*;

    fn report(entries: u64) -> CacheReport {
        CacheReport {
            name: String::new(),
            entries,
            used_bytes: 10 * entries,
            max_bytes: 1000,
            hits: 3,
            misses: 4,
        }
    }

    #[tokio::test]
    async fn caches_are_shown_measured_and_emptied_together() {
        let registry = Registry::new();
        let caches = Caches::new(&registry).unwrap();
        let entries = Arc::new(AtomicU64::new(7));
        let (read, clear) = (entries.clone(), entries.clone());
        caches.add(
            CacheName::Builds,
            move || report(read.load(Ordering::Relaxed)),
            move || clear.store(0, Ordering::Relaxed),
        );
        let away = || async { Err(StoreError::Unavailable("away".to_owned())) };
        caches.add_read_again(CacheName::Prices, || report(2), away);
        let names = |caches: &Caches| -> Vec<(String, u64)> {
            let reports = caches.reports().into_iter();
            reports
                .map(|report| (report.name, report.entries))
                .collect()
        };
        let shown = [("builds".to_owned(), 7), ("prices".to_owned(), 2)];
        assert_eq!(names(&caches), shown);
        assert!(!caches.clear().await, "one cannot be read again");
        assert_eq!(names(&caches)[0].1, 0, "the other is empty all the same");
        for _ in 0..2 {
            let text = TextEncoder::new()
                .encode_to_string(&registry.gather())
                .unwrap();
            for line in [
                "spindle_cache_entries{cache=\"builds\"} 0",
                "spindle_cache_used_bytes{cache=\"prices\"} 20",
                "spindle_cache_hits_total{cache=\"builds\"} 3",
                "spindle_cache_misses_total{cache=\"builds\"} 4",
                "spindle_cache_clears_total{cache=\"builds\"} 1",
                "spindle_cache_clears_total{cache=\"prices\"} 0",
            ] {
                assert!(text.contains(line), "{line} in {text}");
            }
        }
        caches.add_read_again(CacheName::Prices, || report(2), || async { Ok(()) });
        assert!(caches.clear().await);
    }
}
