//! Runs a scan: probes everything concurrently, compares with the last scan, and stores the report.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use schemas::timestamp::to_text;
use store::platform::scans::Scan;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use super::advice::{Findings, History, add_issue, advise, bounded};
use super::comparison::{Comparison, compare, keep_versions, unhealthy_since};
use super::flight::Flight;
use super::health_response::{Health, seconds};
use super::probe::Prober;
use super::report::{
    HealthStatus, IntegrationsRecord, ScanDigest, ScanReport, ScanSummary, ServiceRecord, status_of,
};
use super::settings::{KNOWN_SERVICES, SERVICES_MAX, ScanConfig, ServiceConfig};
use super::{ScanTargets, infrastructure, integrations, tiers};
use crate::clock::now_ms;

/// Concurrent probes: all possible services, so that a slow one does not delay others; a socket each (X1).
const PROBES_AT_ONCE: usize = KNOWN_SERVICES + SERVICES_MAX;
/// This part of the scan timeout is reserved for comparing and storing, at most [`STORING_MAX`].
const STORING_PART: u32 = 10;
const STORING_MAX: Duration = Duration::from_secs(1);
/// A scan is aborted this long after its timeout, which no part of it should reach.
const ABORT_AFTER: Duration = Duration::from_secs(5);

/// Why a scan failed, without internals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScanFailure {
    /// It was aborted after this time.
    TimedOut(Duration),
    /// No HTTP client could be built.
    NoClient,
    /// Its task panicked.
    Ended,
}

impl ScanFailure {
    pub(crate) fn details(self) -> String {
        match self {
            Self::TimedOut(limit) => {
                format!("the scan was not completed within {}", seconds(limit))
            }
            Self::NoClient => "no HTTP client could be built".to_owned(),
            Self::Ended => "the scan ended without a result".to_owned(),
        }
    }
}

/// Runs one scan at a time.
pub(crate) struct Scanner {
    config: Arc<ScanConfig>,
    flight: Flight<Result<Arc<ScanReport>, ScanFailure>>,
}

impl Scanner {
    pub(crate) fn new(config: ScanConfig) -> Self {
        Self {
            config: Arc::new(config),
            flight: Flight::default(),
        }
    }

    /// The report of the running scan, or of a new one. The scan goes on when the caller disconnects.
    pub(crate) async fn scan(
        &self,
        targets: &ScanTargets,
        scanned_by: &str,
    ) -> Result<Arc<ScanReport>, ScanFailure> {
        let (config, targets, by) = (self.config.clone(), targets.clone(), scanned_by.to_owned());
        let work = move || async move {
            let limit = config.scan_timeout + ABORT_AFTER;
            let scan = RunningScan::new(&config, &targets);
            match tokio::time::timeout(limit, scan.run(&by)).await {
                Ok(report) => report.map(Arc::new),
                Err(_) => Err(ScanFailure::TimedOut(limit)),
            }
        };
        let report = self.flight.join(work).await;
        report.unwrap_or(Err(ScanFailure::Ended))
    }
}

/// The times by which parts of a scan must be completed.
pub(super) struct Deadlines {
    /// For responses.
    responses: Instant,
    /// For the whole scan.
    scan: Instant,
    scan_timeout: Duration,
}

impl Deadlines {
    fn new(started: Instant, scan_timeout: Duration) -> Self {
        Self {
            responses: started + scan_timeout - (scan_timeout / STORING_PART).min(STORING_MAX),
            scan: started + scan_timeout,
            scan_timeout,
        }
    }

    /// # Errors
    /// That no response arrived before the deadline.
    pub(super) async fn in_time<T>(&self, response: impl Future<Output = T>) -> Result<T, String> {
        timeout_at(self.responses, response).await.map_err(|_| {
            format!(
                "it did not answer before the end of the scan (after {})",
                seconds(self.scan_timeout)
            )
        })
    }
}

/// The last stored scan.
enum LastScan {
    None,
    Unreadable,
    Stored(Box<(ScanReport, ScanDigest)>),
}

struct RunningScan<'a> {
    config: &'a ScanConfig,
    targets: &'a ScanTargets,
    started: Instant,
    deadlines: Deadlines,
}

/// The probed services.
struct Services {
    records: BTreeMap<String, ServiceRecord>,
    /// Keys of the services whose response contains a version.
    with_version: BTreeSet<String>,
}

impl<'a> RunningScan<'a> {
    fn new(config: &'a ScanConfig, targets: &'a ScanTargets) -> Self {
        let started = Instant::now();
        Self {
            config,
            targets,
            started,
            deadlines: Deadlines::new(started, config.scan_timeout),
        }
    }

    async fn run(&self, scanned_by: &str) -> Result<ScanReport, ScanFailure> {
        let limit = self.config.probe_timeout;
        // Blocking: reads the certificates of the system.
        let probers = tokio::task::spawn_blocking(move || {
            Ok((Prober::inside(limit)?, Prober::outside(limit)?))
        });
        let probers = probers.await.map_err(|_| ScanFailure::Ended)?;
        let (inside, outside) = probers.map_err(|error: reqwest::Error| {
            tracing::error!(error.message = %error.without_url(), "the HTTP client of a scan could not be built");
            ScanFailure::NoClient
        })?;
        let (services, infrastructure, provider, storage, last) = tokio::join!(
            self.services(&inside),
            infrastructure::probe(self.targets, self.deadlines.responses),
            integrations::auth_provider(self.config, &self.deadlines),
            integrations::document_storage(self.config, &outside, &self.deadlines),
            self.last_scan(),
        );
        let processes = self.targets.processes.get();
        let known = processes.map(|processes| processes.processes());
        // Completed: what follows compares and stores.
        let duration = self.started.elapsed();
        let now_ms = now_ms();
        let now = to_text(now_ms);
        let mut records = services.records;
        records.extend(tiers::records(known.as_deref(), &now));
        let mut problems = infrastructure.problems;
        problems.extend(provider.problem.map(|problem| ("authProvider", problem)));
        problems.extend(storage.problem.map(|problem| ("documentStorage", problem)));
        let mut report = ScanReport {
            scan_timestamp: now,
            total_services: 0,
            healthy_services: 0,
            unhealthy_services: 0,
            services: records,
            infrastructure: infrastructure.record,
            external_integrations: IntegrationsRecord {
                auth_provider: provider.record,
                document_storage: storage.record,
            },
            summary: ScanSummary::default(),
        };
        report.count();
        let never = BTreeMap::new();
        let (history, comparison, before) = match &last {
            LastScan::Stored(stored) => {
                let (last, digest) = &**stored;
                keep_versions(last, &mut report, &services.with_version);
                let history = History::Since(&last.scan_timestamp);
                (history, compare(last, &report), &digest.unhealthy_since)
            }
            LastScan::None => (History::Empty, Comparison::default(), &never),
            LastScan::Unreadable => (History::Unreadable, Comparison::default(), &never),
        };
        let since = unhealthy_since(before, &report);
        let process_issues = tiers::process_issues(known.as_deref().unwrap_or_default());
        let mut advice = advise(&Findings {
            report: &report,
            problems: &problems,
            unhealthy_since: &since,
            history,
            comparison: &comparison,
            log: infrastructure.log.as_ref(),
            disk: infrastructure.disk,
            caches: &infrastructure.caches,
            process_issues: &process_issues,
        });
        report.summary = ScanSummary {
            scan_duration: seconds_text(duration),
            new_services_found: comparison.new_services.len() as u64,
            configuration_changes: comparison.changes.len() as u64,
            issues_detected: advice.issues,
            recommendations: bounded(&advice.recommendations),
        };
        if !self.store(now_ms, scanned_by, &report, since).await {
            add_issue(
                &mut advice,
                "This scan could not be stored, so the next one is compared with an older one: check the database.",
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

    async fn services(&self, prober: &Prober) -> Services {
        let probes = stream::iter(self.config.all_services()).map(|service| async move {
            let health = match service.health_address() {
                None => None,
                Some(url) => {
                    let health = self.deadlines.in_time(prober.health(url)).await;
                    Some(health.unwrap_or_else(Health::unhealthy))
                }
            };
            let has_version = health.as_ref().is_some_and(|it| it.version.is_some());
            let record = record(&service, health);
            (service.key, record, has_version)
        });
        let mut services = Services {
            records: BTreeMap::new(),
            with_version: BTreeSet::new(),
        };
        let mut probes = std::pin::pin!(probes.buffer_unordered(PROBES_AT_ONCE));
        while let Some((key, record, has_version)) = probes.next().await {
            if has_version {
                services.with_version.insert(key.clone());
            }
            services.records.insert(key, record);
        }
        services
    }

    async fn last_scan(&self) -> LastScan {
        let last = self.targets.store.last_scan();
        let last = match timeout_at(self.deadlines.responses, last).await {
            Ok(Ok(Some(last))) => last,
            Ok(Ok(None)) => return LastScan::None,
            Ok(Err(error)) => {
                tracing::warn!(error.message = %error, "the last scan cannot be read");
                return LastScan::Unreadable;
            }
            Err(_) => return LastScan::Unreadable,
        };
        let report = serde_json::from_str(&last.report);
        let digest = serde_json::from_str(&last.digest);
        match (report, digest) {
            (Ok(report), Ok(digest)) => LastScan::Stored(Box::new((report, digest))),
            // Of another version of this program.
            _ => LastScan::Unreadable,
        }
    }

    /// Stores the scan; `false` on failure.
    async fn store(
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
        let stored = self.targets.store.put_scan(&scan);
        match timeout_at(self.deadlines.scan, stored).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::warn!(error.message = %error, "a scan could not be stored");
                false
            }
            Err(_) => {
                tracing::warn!("a scan was not stored in time");
                false
            }
        }
    }
}

/// `1.234s`, rounded down.
fn seconds_text(duration: Duration) -> String {
    format!("{}.{:03}s", duration.as_secs(), duration.subsec_millis())
}

/// `health` is `None` for a service without an address.
fn record(service: &ServiceConfig, health: Option<Health>) -> ServiceRecord {
    let last_health_check = health.is_some().then(|| to_text(now_ms()));
    let (status, version, error) = match health {
        None => (HealthStatus::Unknown, None, None),
        Some(health) => (status_of(&health.problem), health.version, health.problem),
    };
    ServiceRecord {
        name: service.display_name(),
        version: version.unwrap_or_else(|| service.version_or_unknown()),
        status,
        endpoint: service.public_endpoint(),
        capabilities: service.capabilities.clone(),
        last_health_check,
        error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_possible_services_are_probed_at_once() {
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
