//! One scan: everything is asked side by side within one bound of time, compared with the last scan, and kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use schemas::timestamp::to_text;
use store::Store;
use store::scans::Scan;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use super::advice::{Found, History, add_issue, advise, bounded};
use super::comparison::{Comparison, compare, keep_versions, unhealthy_since};
use super::flight::Flight;
use super::health_answer::{Verdict, seconds};
use super::probe::Prober;
use super::report::{
    AuthProviderRecord, DocumentStorageRecord, HealthStatus, IntegrationsRecord, ScanDigest,
    ScanReport, ScanSummary, ServiceRecord,
};
use super::settings::{KNOWN_SERVICES, SERVICES_MAX, ScanConfig, ServiceConfig, shown};
use super::{infrastructure, provider, storage, tiers};
use crate::state::{QueryState, now_ms};

/// Services asked at once: all there can be, so that a slow one takes no time from another; a socket each (X1).
const PROBES_AT_ONCE: usize = KNOWN_SERVICES + SERVICES_MAX;
/// Of the time for a scan, one part in so many is left for comparing and keeping it, and at most so long.
const KEEPING_PART: u32 = 10;
const KEEPING_MAX: Duration = Duration::from_secs(1);
/// How long after its bound a scan is given up altogether. Nothing in it should take that long.
const LOST_AFTER: Duration = Duration::from_secs(5);

/// Why a scan could not be done at all: for a person, with nothing of the inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// It was not over long after its bound.
    TimedOut(Duration),
    /// No connections can be made.
    NoClient,
    /// Its task ended without a result.
    Ended,
}

impl Lost {
    /// What is told of it.
    pub(crate) fn details(self) -> String {
        match self {
            Self::TimedOut(limit) => format!(
                "the scan was not over after {}, which is more than it may take",
                seconds(limit)
            ),
            Self::NoClient => "the server cannot make connections to others".to_owned(),
            Self::Ended => "the scan ended before it had a result".to_owned(),
        }
    }
}

/// Scans, one at a time.
pub(crate) struct Scanner {
    config: Arc<ScanConfig>,
    flight: Flight<Result<Arc<ScanReport>, Lost>>,
}

impl Scanner {
    pub(crate) fn new(config: ScanConfig) -> Self {
        Self {
            config: Arc::new(config),
            flight: Flight::default(),
        }
    }

    /// What a scan finds: the one under way, if there is one, else one of its own. It goes on when the caller goes
    /// away.
    pub(crate) async fn scan(
        &self,
        state: &QueryState,
        scanned_by: &str,
    ) -> Result<Arc<ScanReport>, Lost> {
        let (config, state, by) = (self.config.clone(), state.clone(), scanned_by.to_owned());
        let work = move || async move {
            let limit = config.scan_timeout + LOST_AFTER;
            let scan = Scanning::new(&config, &state);
            match tokio::time::timeout(limit, scan.run(&by)).await {
                Ok(found) => found.map(Arc::new),
                Err(_) => Err(Lost::TimedOut(limit)),
            }
        };
        self.flight.join(work).await.unwrap_or(Err(Lost::Ended))
    }
}

/// What is known of the scans before.
enum Past {
    Empty,
    Unreadable,
    Last(Box<(ScanReport, ScanDigest)>),
}

/// A scan under way.
struct Scanning<'a> {
    config: &'a ScanConfig,
    state: &'a QueryState,
    started: Instant,
    /// When everything has to have answered.
    answers_until: Instant,
    /// When it has to be over.
    until: Instant,
}

impl<'a> Scanning<'a> {
    fn new(config: &'a ScanConfig, state: &'a QueryState) -> Self {
        let started = Instant::now();
        let limit = config.scan_timeout;
        Self {
            config,
            state,
            started,
            answers_until: started + limit - (limit / KEEPING_PART).min(KEEPING_MAX),
            until: started + limit,
        }
    }

    async fn run(&self, scanned_by: &str) -> Result<ScanReport, Lost> {
        // Reads the certificates of the system.
        let limit = self.config.probe_timeout;
        let probers = tokio::task::spawn_blocking(move || {
            Ok((Prober::inside(limit)?, Prober::outside(limit)?))
        });
        let probers = probers.await.map_err(|_| Lost::Ended)?;
        let (prober, outside) = probers.map_err(|error: reqwest::Error| {
            tracing::error!(error.message = %error.without_url(), "no client for a scan can be made");
            Lost::NoClient
        })?;
        let ((mut services, told), infrastructure, provider, storage, past) = tokio::join!(
            self.services(&prober),
            infrastructure::ask(self.state, self.answers_until),
            self.provider(),
            self.storage(&outside),
            self.past(),
        );
        let heard = self
            .state
            .processes()
            .ok()
            .map(|processes| processes.processes());
        let now_ms = now_ms();
        let now = to_text(now_ms);
        services.extend(tiers::records(heard.as_deref(), &now));
        let mut problems = infrastructure.problems;
        problems.extend(provider.1.map(|why| ("authProvider", why)));
        problems.extend(storage.1.map(|why| ("documentStorage", why)));
        let mut report = ScanReport {
            scan_timestamp: now,
            total_services: 0,
            healthy_services: 0,
            unhealthy_services: 0,
            services,
            infrastructure: infrastructure.record,
            external_integrations: IntegrationsRecord {
                auth_provider: provider.0,
                document_storage: storage.0,
            },
            summary: ScanSummary::default(),
        };
        report.count();
        let (history, comparison, since) = match &past {
            Past::Last(last) => {
                let (last, digest) = &**last;
                keep_versions(last, &mut report, &told);
                let since = unhealthy_since(&digest.unhealthy_since, &report);
                let comparison = compare(last, &report);
                (History::Since(&last.scan_timestamp), comparison, since)
            }
            Past::Empty | Past::Unreadable => {
                let since = unhealthy_since(&BTreeMap::new(), &report);
                let history = match past {
                    Past::Unreadable => History::Unreadable,
                    _ => History::Empty,
                };
                (history, Comparison::default(), since)
            }
        };
        let limping = tiers::limping(heard.as_deref().unwrap_or_default());
        let mut advice = advise(&Found {
            report: &report,
            problems: &problems,
            unhealthy_since: &since,
            history,
            comparison: &comparison,
            log: infrastructure.log.as_ref(),
            disk: infrastructure.disk,
            caches: &infrastructure.caches,
            limping: &limping,
        });
        report.summary = ScanSummary {
            scan_duration: format!("{:.3}s", self.started.elapsed().as_secs_f64()),
            new_services_found: comparison.new_services.len() as u64,
            configuration_changes: comparison.changes.len() as u64,
            issues_detected: advice.issues,
            recommendations: bounded(&advice.recommendations),
        };
        if !self.keep(now_ms, scanned_by, &report, since).await {
            add_issue(
                &mut advice,
                "This scan could not be kept, so the next one is compared with an older one: see to the database.",
            );
            report.summary.issues_detected = advice.issues;
            report.summary.recommendations = bounded(&advice.recommendations);
        }
        tracing::info!(
            scan.by = scanned_by,
            scan.duration_ms = self.started.elapsed().as_millis(),
            scan.services = report.total_services,
            scan.unhealthy = report.unhealthy_services,
            scan.issues = report.summary.issues_detected,
            "scanned the platform"
        );
        Ok(report)
    }

    /// Asks every service; says, too, which of them told their version.
    async fn services(
        &self,
        prober: &Prober,
    ) -> (BTreeMap<String, ServiceRecord>, BTreeSet<String>) {
        let all = self.config.all_services();
        let asked = stream::iter(all).map(|service| async move {
            let verdict =
                match service.probed() {
                    None => None,
                    Some(url) => Some(self.in_time(prober.health(url)).await.unwrap_or_else(
                        |why| Verdict {
                            problem: Some(why),
                            version: None,
                        },
                    )),
                };
            let at = to_text(now_ms());
            let has_told = verdict.as_ref().is_some_and(|it| it.version.is_some());
            let record = record(&service, verdict, at);
            (has_told.then(|| service.key.clone()), (service.key, record))
        });
        let asked = asked.buffer_unordered(PROBES_AT_ONCE);
        let (told, services): (Vec<_>, Vec<_>) = asked.unzip().await;
        (
            services.into_iter().collect(),
            told.into_iter().flatten().collect(),
        )
    }

    async fn provider(&self) -> (AuthProviderRecord, Option<String>) {
        let Some(config) = &self.config.auth_provider else {
            let record = AuthProviderRecord {
                name: "Identity provider".to_owned(),
                status: HealthStatus::Unknown,
                endpoint: String::new(),
                last_health_check: to_text(now_ms()),
            };
            return (record, None);
        };
        let asked = provider::ask(config, self.config.probe_timeout);
        let asked = self.in_time(asked).await;
        let problem = asked.and_then(|answer| answer).err();
        let record = AuthProviderRecord {
            name: config.name.clone(),
            status: status_of(&problem),
            endpoint: config
                .issuer
                .parse()
                .map_or_else(|_| String::new(), |url| shown(&url)),
            last_health_check: to_text(now_ms()),
        };
        (record, problem)
    }

    async fn storage(&self, prober: &Prober) -> (DocumentStorageRecord, Option<String>) {
        let Some(config) = &self.config.document_storage else {
            let record = DocumentStorageRecord {
                name: "Document storage".to_owned(),
                status: HealthStatus::Unknown,
                endpoint: String::new(),
                buckets: 0,
                last_health_check: to_text(now_ms()),
            };
            return (record, None);
        };
        let asked = self.in_time(storage::buckets(prober, config)).await;
        let asked = asked.and_then(|answer| answer);
        let record = DocumentStorageRecord {
            name: config.name.clone(),
            status: match &asked {
                Ok(_) => HealthStatus::Healthy,
                Err(_) => HealthStatus::Unhealthy,
            },
            endpoint: shown(&config.endpoint),
            buckets: *asked.as_ref().unwrap_or(&0),
            last_health_check: to_text(now_ms()),
        };
        (record, asked.err())
    }

    /// The last scan.
    async fn past(&self) -> Past {
        let last = match timeout_at(self.answers_until, self.state.store().last_scan()).await {
            Ok(Ok(Some(last))) => last,
            Ok(Ok(None)) => return Past::Empty,
            Ok(Err(error)) => {
                tracing::warn!(error.message = %error, "the last scan cannot be read");
                return Past::Unreadable;
            }
            Err(_) => return Past::Unreadable,
        };
        let report = serde_json::from_str(&last.report);
        let digest = serde_json::from_str(&last.digest);
        match (report, digest) {
            (Ok(report), Ok(digest)) => Past::Last(Box::new((report, digest))),
            // Of another version of this program.
            _ => Past::Unreadable,
        }
    }

    /// Keeps the scan; `false` when it could not.
    async fn keep(
        &self,
        now_ms: i64,
        scanned_by: &str,
        report: &ScanReport,
        since: BTreeMap<String, String>,
    ) -> bool {
        let digest = ScanDigest {
            total_services: report.total_services,
            healthy_services: report.healthy_services,
            unhealthy_services: report.unhealthy_services,
            summary: report.summary.clone(),
            unhealthy_since: since,
        };
        let texts = (
            serde_json::to_string(&digest),
            serde_json::to_string(report),
        );
        let (Ok(digest), Ok(report)) = texts else {
            tracing::error!("a scan cannot be written as JSON");
            return false;
        };
        let scan = Scan {
            scanned_at: now_ms,
            scan_id: Uuid::new_v4().to_string(),
            scanned_by: scanned_by.to_owned(),
            digest,
            report,
        };
        let store: &Store = self.state.store();
        match timeout_at(self.until, store.put_scan(&scan)).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::warn!(error.message = %error, "a scan cannot be kept");
                false
            }
            Err(_) => {
                tracing::warn!("a scan was not kept in time");
                false
            }
        }
    }

    /// The answer, or that there was none before the end of the scan.
    async fn in_time<T>(&self, asked: impl Future<Output = T>) -> Result<T, String> {
        timeout_at(self.answers_until, asked).await.map_err(|_| {
            format!(
                "it had not answered when the scan had to end (after {})",
                seconds(self.config.scan_timeout)
            )
        })
    }
}

fn status_of(problem: &Option<String>) -> HealthStatus {
    match problem {
        None => HealthStatus::Healthy,
        Some(_) => HealthStatus::Unhealthy,
    }
}

/// A service as the report shows it; `verdict` is `None` where there was nobody to ask.
fn record(service: &ServiceConfig, verdict: Option<Verdict>, at: String) -> ServiceRecord {
    let (status, told, error) = match verdict {
        None => (HealthStatus::Unknown, None, None),
        Some(verdict) => (
            status_of(&verdict.problem),
            verdict.version,
            verdict.problem,
        ),
    };
    ServiceRecord {
        name: service.shown_name(),
        version: told.unwrap_or_else(|| service.shown_version()),
        status,
        endpoint: service.shown_endpoint(),
        capabilities: service.capabilities.clone(),
        last_health_check: at,
        error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_service_there_can_be_is_asked_at_once() {
        let service = |n| ServiceConfig {
            key: format!("s{n}"),
            ..ServiceConfig::default()
        };
        let config = ScanConfig {
            services: (0..SERVICES_MAX).map(service).collect(),
            ..ScanConfig::default()
        };
        assert!(config.faults().is_empty());
        assert_eq!(config.all_services().len(), PROBES_AT_ONCE);
    }
}
