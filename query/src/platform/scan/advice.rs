//! Issues and recommendations of a scan. Pure.

use std::collections::BTreeMap;

use schemas::control::CacheReport;

use super::comparison::Comparison;
use super::report::{HealthStatus, ScanReport};
use crate::ports::infrastructure::{DiskReport, LogReport};

/// Recommendations in a report (X1); the most important ones are first.
pub(crate) const RECOMMENDATIONS_MAX: usize = 50;
/// Percent of the connections, the disk and the log from which on they are nearly used up.
const CONNECTIONS_PERCENT: u64 = 80;
const DISK_PERCENT: u64 = 90;
const LOG_PERCENT: u64 = 80;
/// Unprocessed records from which on the processor is behind; each is a batch of events.
const LAG_RECORDS: u64 = 10_000;
/// Look-ups from which on a hit rate is meaningful, and the percent below which it is low.
const CACHE_LOOKUPS: u64 = 1000;
const CACHE_HIT_PERCENT: u64 = 50;
/// The cache that contains the whole table: its misses are models without a price.
const PRICES: &str = "prices";

/// The previous scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum History<'a> {
    Empty,
    Unreadable,
    /// Its time.
    Since(&'a str),
}

/// Results of a scan.
pub(crate) struct Findings<'a> {
    pub(crate) report: &'a ScanReport,
    /// Why infrastructure and integrations are unhealthy, by key.
    pub(crate) problems: &'a BTreeMap<&'static str, String>,
    /// Time of the first of consecutive scans that found a system unhealthy, by key.
    pub(crate) unhealthy_since: &'a BTreeMap<String, String>,
    pub(crate) history: History<'a>,
    pub(crate) comparison: &'a Comparison,
    pub(crate) log: Option<&'a LogReport>,
    pub(crate) disk: Option<DiskReport>,
    pub(crate) caches: &'a [CacheReport],
    /// Issues of Spindle's processes, as sentences.
    pub(crate) process_issues: &'a [String],
}

/// Recommendations of a scan.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Advice {
    pub(crate) issues: u64,
    /// All recommendations: issues, then changes, then hints. A report has them [`bounded`].
    pub(crate) recommendations: Vec<String>,
}

pub(crate) fn advise(findings: &Findings<'_>) -> Advice {
    let mut issues = Vec::new();
    unhealthy(findings, &mut issues);
    used_up(findings, &mut issues);
    issues.extend(findings.process_issues.iter().cloned());
    if findings.history == History::Unreadable {
        issues.push(
            "The last scan could not be read, so changes are unknown: check the database."
                .to_owned(),
        );
    }
    let mut recommendations = issues;
    let issues = recommendations.len() as u64;
    changed(findings, &mut recommendations);
    hints(findings, &mut recommendations);
    Advice {
        issues,
        recommendations,
    }
}

/// The first [`RECOMMENDATIONS_MAX`], with the number of the others.
pub(crate) fn bounded(recommendations: &[String]) -> Vec<String> {
    let mut bounded = recommendations.to_vec();
    if bounded.len() > RECOMMENDATIONS_MAX {
        bounded.truncate(RECOMMENDATIONS_MAX - 1);
        let more = recommendations.len() - bounded.len();
        bounded.push(format!("{more} more are left out."));
    }
    bounded
}

pub(crate) fn add_issue(advice: &mut Advice, issue: &str) {
    advice.issues += 1;
    advice.recommendations.insert(0, issue.to_owned());
}

fn unhealthy(findings: &Findings<'_>, issues: &mut Vec<String>) {
    let since = |key: &str| match (findings.unhealthy_since.get(key), findings.history) {
        (Some(since), _) if *since != findings.report.scan_timestamp => {
            format!(" It has been unhealthy since the scan of {since}.")
        }
        (_, History::Since(last)) => format!(" It was healthy at the scan of {last}."),
        _ => String::new(),
    };
    for (key, service) in &findings.report.services {
        if service.status == HealthStatus::Unhealthy {
            let problem = service.error.as_deref().unwrap_or("the reason is unknown");
            issues.push(format!(
                "{} (`{key}`) is unhealthy: {problem}.{}",
                service.name,
                since(key)
            ));
        }
    }
    let systems = findings.report.unhealthy();
    for key in systems.filter(|key| !findings.report.services.contains_key(*key)) {
        let problem = findings
            .problems
            .get(key)
            .map_or("the reason is unknown", |problem| problem);
        let name = match key {
            "database" => "The database",
            "messageBroker" => "The event log",
            "cacheStore" => "The cache store",
            "authProvider" => "The identity provider",
            _ => "The document storage",
        };
        issues.push(format!(
            "{name} (`{key}`) is unhealthy: {problem}.{}",
            since(key)
        ));
    }
}

fn used_up(findings: &Findings<'_>, issues: &mut Vec<String>) {
    let pool = findings.report.infrastructure.database.connections;
    if is_over(pool.active, pool.max, CONNECTIONS_PERCENT) {
        issues.push(format!(
            "{} of {} connections to the database are in use: raise `clickhouse.max_connections`, or add a query process.",
            pool.active, pool.max
        ));
    }
    if let Some(lag) = findings
        .log
        .and_then(|log| log.lag_records)
        .filter(|lag| *lag >= LAG_RECORDS)
    {
        issues.push(format!(
            "{lag} records of the log are not processed yet, so new events are delayed: add processors, or check why they are slow."
        ));
    }
    if let Some((used, max)) = findings.log.and_then(|log| log.bytes)
        && is_over(used, max, LOG_PERCENT)
    {
        issues.push(format!(
            "The log uses {} of {}; reports are rejected when it is full: check why the processor is behind, or raise `log.max_bytes`.",
            size(used),
            size(max)
        ));
    }
    if let Some(disk) = findings.disk {
        let used = disk.total_bytes.saturating_sub(disk.free_bytes);
        if is_over(used, disk.total_bytes, DISK_PERCENT) {
            issues.push(format!(
                "The disk of the data folder has {} free of {}: free space, or shorten the retention of projects.",
                size(disk.free_bytes),
                size(disk.total_bytes)
            ));
        }
    }
}

fn changed(findings: &Findings<'_>, recommendations: &mut Vec<String>) {
    let last = match findings.history {
        History::Since(last) => last,
        History::Unreadable => return,
        History::Empty => {
            recommendations
                .push("This is the first stored scan: the next one reports changes.".to_owned());
            return;
        }
    };
    for key in &findings.comparison.new_services {
        recommendations.push(format!("`{key}` is new since the scan of {last}."));
    }
    for change in &findings.comparison.changes {
        let (key, from, to) = (&change.key, or_none(&change.from), or_none(&change.to));
        recommendations.push(match change.what {
            Some("version") => format!(
                "The version of `{key}` changed from {from} to {to} since the scan of {last}: check that this was intended."
            ),
            Some(what) => format!(
                "The {what} of `{key}` changed from {from} to {to} since the scan of {last}: check that this was intended."
            ),
            None => format!(
                "`{key}` was removed since the scan of {last}: check that this was intended."
            ),
        });
    }
}

fn hints(findings: &Findings<'_>, recommendations: &mut Vec<String>) {
    let sized = findings.caches.iter().filter(|cache| cache.name != PRICES);
    for cache in sized {
        let lookups = cache.hits.saturating_add(cache.misses);
        let is_low = cache.hits.saturating_mul(100) < lookups.saturating_mul(CACHE_HIT_PERCENT);
        if lookups >= CACHE_LOOKUPS && is_low {
            recommendations.push(format!(
                "The cache {} has {} hits in {lookups} look-ups: it may be too small.",
                cache.name, cache.hits
            ));
        }
    }
    let services = findings.report.services.iter();
    let without = services.filter(|(_, service)| service.status == HealthStatus::Unknown);
    let without: Vec<String> = without.map(|(key, _)| format!("`{key}`")).collect();
    if !without.is_empty() {
        recommendations.push(format!(
            "These services have no address, so their health is unknown: {}. Set it in `platform.services`.",
            without.join(", ")
        ));
    }
}

fn is_over(used: u64, max: u64, percent: u64) -> bool {
    max > 0 && u128::from(used) * 100 >= u128::from(max) * u128::from(percent)
}

fn or_none(text: &str) -> &str {
    match text {
        "" => "none",
        text => text,
    }
}

/// A size, for example `12.3 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    bytesize::ByteSize::b(bytes).display().iec().to_string()
}

#[cfg(test)]
mod tests {
    use super::super::comparison::compare;
    use super::super::report::tests::{AT, report};
    use super::*;

    const LAST: &str = "2026-11-20T10:00:00.000Z";

    struct Case {
        report: ScanReport,
        problems: BTreeMap<&'static str, String>,
        since: BTreeMap<String, String>,
        history: History<'static>,
        comparison: Comparison,
        log: Option<LogReport>,
        disk: Option<DiskReport>,
        caches: Vec<CacheReport>,
        process_issues: Vec<String>,
    }

    fn healthy() -> Case {
        Case {
            report: report(&["a", "b"]),
            problems: BTreeMap::new(),
            since: BTreeMap::new(),
            history: History::Since(LAST),
            comparison: Comparison::default(),
            log: Some(LogReport {
                kind: "kafka",
                version: "unknown".to_owned(),
                brokers: 3,
                topics: 9,
                lag_records: Some(LAG_RECORDS - 1),
                bytes: Some((79, 100)),
            }),
            disk: Some(DiskReport {
                free_bytes: 11,
                total_bytes: 100,
            }),
            caches: Vec::new(),
            process_issues: Vec::new(),
        }
    }

    fn advice(case: &Case) -> Advice {
        advise(&Findings {
            report: &case.report,
            problems: &case.problems,
            unhealthy_since: &case.since,
            history: case.history,
            comparison: &case.comparison,
            log: case.log.as_ref(),
            disk: case.disk,
            caches: &case.caches,
            process_issues: &case.process_issues,
        })
    }

    /// Exactly one recommendation with these words.
    #[track_caller]
    fn says(case: &Case, issues: u64, words: &[&str]) {
        let advice = advice(case);
        assert_eq!(advice.issues, issues, "{advice:?}");
        assert_eq!(advice.recommendations.len(), 1, "{advice:?}");
        for word in words {
            assert!(
                advice.recommendations[0].contains(word),
                "{word}: {advice:?}"
            );
        }
    }

    #[test]
    fn a_healthy_platform_has_no_recommendation() {
        assert_eq!(advice(&healthy()), Advice::default());
    }

    #[test]
    fn an_unhealthy_system_is_named_with_reason_and_time() {
        let mut case = healthy();
        let service = case.report.services.get_mut("a").unwrap();
        service.status = HealthStatus::Unhealthy;
        service.error = Some("timed out after 3 s".to_owned());
        case.since = BTreeMap::from([("a".to_owned(), AT.to_owned())]);
        says(
            &case,
            1,
            &[
                "`a`",
                "timed out after 3 s",
                "healthy at the scan of 2026-11-20",
            ],
        );
        case.since = BTreeMap::from([("a".to_owned(), "2026-11-01".to_owned())]);
        says(&case, 1, &["since the scan of 2026-11-01"]);
        let mut case = healthy();
        case.report.infrastructure.database.status = HealthStatus::Unhealthy;
        case.problems
            .insert("database", "it does not answer".to_owned());
        case.history = History::Unreadable;
        let advice = advice(&case);
        assert_eq!(advice.issues, 2, "{advice:?}");
        assert!(advice.recommendations[0].contains("it does not answer"));
        assert!(advice.recommendations[1].contains("could not be read"));
    }

    #[test]
    fn a_resource_that_is_nearly_used_up_is_an_issue() {
        let mut case = healthy();
        case.report.infrastructure.database.connections.active = 26;
        says(&case, 1, &["26 of 32", "max_connections"]);
        let mut case = healthy();
        case.log.as_mut().unwrap().lag_records = Some(LAG_RECORDS);
        says(&case, 1, &["10000 records"]);
        let mut case = healthy();
        case.log.as_mut().unwrap().bytes = Some((8 << 30, 10 << 30));
        says(&case, 1, &["8.0 GiB of 10.0 GiB", "log.max_bytes"]);
        let mut case = healthy();
        case.disk = Some(DiskReport {
            free_bytes: 1 << 30,
            total_bytes: 100 << 30,
        });
        says(&case, 1, &["1.0 GiB free of 100.0 GiB"]);
        let mut case = healthy();
        case.process_issues = vec!["A process is degraded.".to_owned()];
        says(&case, 1, &["degraded"]);
    }

    #[test]
    fn changes_are_recommendations_but_not_issues() {
        let mut case = healthy();
        let mut before = case.report.clone();
        before.services.get_mut("a").unwrap().version = "0.9".to_owned();
        case.comparison = compare(&before, &case.report);
        says(&case, 0, &["`a` changed from 0.9 to 1.0", LAST]);
        before = case.report.clone();
        before.services.remove("b");
        case.comparison = compare(&before, &case.report);
        says(&case, 0, &["`b` is new"]);
        case.comparison = compare(&report(&["a", "b", "c"]), &case.report);
        says(&case, 0, &["`c` was removed"]);
        case.comparison = Comparison::default();
        case.history = History::Empty;
        says(&case, 0, &["first stored scan"]);
    }

    #[test]
    fn low_hit_rates_and_missing_addresses_are_hints() {
        let mut case = healthy();
        let named = |name: &str, hits, misses| CacheReport {
            name: name.to_owned(),
            entries: 1,
            used_bytes: 1,
            max_bytes: 2,
            hits,
            misses,
        };
        let cache = |hits, misses| named("hot_runs", hits, misses);
        case.caches = vec![cache(499, 501)];
        says(&case, 0, &["cache hot_runs", "499 hits in 1000"]);
        for fine in [cache(500, 500), cache(0, 999), named(PRICES, 0, 9999)] {
            case.caches = vec![fine];
            assert_eq!(advice(&case), Advice::default());
        }
        let mut case = healthy();
        for key in ["a", "b"] {
            case.report.services.get_mut(key).unwrap().status = HealthStatus::Unknown;
        }
        says(&case, 0, &["`a`, `b`", "platform.services"]);
    }

    #[test]
    fn recommendations_are_bounded_and_all_are_counted_x1() {
        let mut case = healthy();
        case.process_issues = (0..200).map(|n| format!("{n}.")).collect();
        let mut advice = advice(&case);
        let shown = bounded(&advice.recommendations);
        assert_eq!((advice.issues, shown.len()), (200, 50));
        assert_eq!(shown[49], "151 more are left out.");
        add_issue(&mut advice, "One more.");
        let shown = bounded(&advice.recommendations);
        assert_eq!((advice.issues, shown.len()), (201, 50));
        assert_eq!(shown[0], "One more.");
        assert_eq!(shown[49], "152 more are left out.");
        assert_eq!(bounded(&shown), shown);
    }
}
