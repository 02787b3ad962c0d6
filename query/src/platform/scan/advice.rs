//! What to do about what a scan found: pure.

use std::collections::BTreeMap;

use schemas::control::CacheReport;

use super::comparison::Comparison;
use super::report::{HealthStatus, ScanReport};
use crate::platform::{DiskReport, LogReport};

/// Recommendations in a report (X1): the first are the most pressing, and nobody reads more.
pub(crate) const RECOMMENDATIONS_MAX: usize = 50;
/// Percent of the bound on connections, of a disk, of the log from which on they are nearly used up.
const CONNECTIONS_PERCENT: u64 = 80;
const DISK_PERCENT: u64 = 90;
const LOG_PERCENT: u64 = 80;
/// Records that wait from which on the processor is behind: each is a batch of events.
const LAG_RECORDS: u64 = 10_000;
/// Look-ups before the hit rate of a cache says anything, and the percent below which it is low.
const CACHE_LOOKUPS: u64 = 1000;
const CACHE_HIT_PERCENT: u64 = 50;
/// The cache that has all there is: what it does not find has no price anywhere.
const PRICES: &str = "prices";

/// What is known of the scans before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum History<'a> {
    /// There was none.
    Empty,
    /// It cannot be read.
    Unreadable,
    /// The last one was at this time.
    Since(&'a str),
}

/// What a scan found.
pub(crate) struct Found<'a> {
    pub(crate) report: &'a ScanReport,
    /// Why infrastructure and integrations are unhealthy, by key.
    pub(crate) problems: &'a BTreeMap<&'static str, String>,
    /// When what is unhealthy was first found so.
    pub(crate) unhealthy_since: &'a BTreeMap<String, String>,
    pub(crate) history: History<'a>,
    pub(crate) comparison: &'a Comparison,
    pub(crate) log: Option<&'a LogReport>,
    pub(crate) disk: Option<DiskReport>,
    pub(crate) caches: &'a [CacheReport],
    /// Processes of ours that are not well, as sentences.
    pub(crate) limping: &'a [String],
}

/// What to do.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Advice {
    /// How many things are wrong.
    pub(crate) issues: u64,
    /// Sentences for a person, all there are: first what is wrong, then what changed, then what could be better. A
    /// report has them [`bounded`].
    pub(crate) recommendations: Vec<String>,
}

/// Says what to do.
pub(crate) fn advise(found: &Found<'_>) -> Advice {
    let mut issues = Vec::new();
    unhealthy(found, &mut issues);
    used_up(found, &mut issues);
    issues.extend(found.limping.iter().cloned());
    if found.history == History::Unreadable {
        issues.push(
            "The last scan could not be read, so nothing is compared with it: see to the database."
                .to_owned(),
        );
    }
    let mut recommendations = issues;
    let issues = recommendations.len() as u64;
    changed(found, &mut recommendations);
    could_be_better(found, &mut recommendations);
    Advice {
        issues,
        recommendations,
    }
}

/// As many of them as a report has, once all are known.
pub(crate) fn bounded(recommendations: &[String]) -> Vec<String> {
    let mut bounded = recommendations.to_vec();
    if bounded.len() > RECOMMENDATIONS_MAX {
        bounded.truncate(RECOMMENDATIONS_MAX - 1);
        let more = recommendations.len() - bounded.len();
        bounded.push(format!("{more} more are not shown."));
    }
    bounded
}

/// Something else that is wrong, known after the rest.
pub(crate) fn add_issue(advice: &mut Advice, issue: &str) {
    advice.issues += 1;
    advice.recommendations.insert(0, issue.to_owned());
}

fn unhealthy(found: &Found<'_>, issues: &mut Vec<String>) {
    let since = |key: &str| match (found.unhealthy_since.get(key), found.history) {
        (Some(since), _) if *since != found.report.scan_timestamp => {
            format!(" It has been so since the scan of {since}.")
        }
        (_, History::Since(last)) => format!(" It was not so at the scan of {last}."),
        _ => String::new(),
    };
    for (key, service) in &found.report.services {
        if service.status == HealthStatus::Unhealthy {
            let why = service.error.as_deref().unwrap_or("no reason is known");
            issues.push(format!(
                "{} (`{key}`) is unhealthy: {why}.{}",
                service.name,
                since(key)
            ));
        }
    }
    let systems = found.report.unhealthy();
    for key in systems.filter(|key| !found.report.services.contains_key(*key)) {
        let why = found
            .problems
            .get(key)
            .map_or("no reason is known", |why| why);
        let name = match key {
            "database" => "The database",
            "messageBroker" => "The event log",
            "cacheStore" => "The cache store",
            "authProvider" => "The identity provider",
            _ => "The document storage",
        };
        issues.push(format!(
            "{name} (`{key}`) is unhealthy: {why}.{}",
            since(key)
        ));
    }
}

fn used_up(found: &Found<'_>, issues: &mut Vec<String>) {
    let pool = found.report.infrastructure.database.connections;
    if is_over(pool.active, pool.max, CONNECTIONS_PERCENT) {
        issues.push(format!(
            "{} of {} reads of the database are under way: raise `clickhouse.max_connections`, or add a query process.",
            pool.active, pool.max
        ));
    }
    if let Some(lag) = found
        .log
        .and_then(|log| log.lag_records)
        .filter(|lag| *lag >= LAG_RECORDS)
    {
        issues.push(format!(
            "{lag} records of the log wait to be processed: new events show late; add processors, or see what holds them up."
        ));
    }
    if let Some((used, most)) = found.log.and_then(|log| log.bytes)
        && is_over(used, most, LOG_PERCENT)
    {
        issues.push(format!(
            "The log holds {} of at most {}: when it is full, reports are refused; see why the processor is behind, or raise `log.max_bytes`.",
            size(used),
            size(most)
        ));
    }
    if let Some(disk) = found.disk {
        let used = disk.total_bytes.saturating_sub(disk.free_bytes);
        if is_over(used, disk.total_bytes, DISK_PERCENT) {
            issues.push(format!(
                "The disk of the data folder has {} free of {}: make room, or let projects keep their data for a shorter time.",
                size(disk.free_bytes),
                size(disk.total_bytes)
            ));
        }
    }
}

fn changed(found: &Found<'_>, recommendations: &mut Vec<String>) {
    let last = match found.history {
        History::Since(last) => last,
        History::Unreadable => return,
        History::Empty => {
            recommendations.push(
                "This is the first scan that is kept: changes are counted from the next one on."
                    .to_owned(),
            );
            return;
        }
    };
    for key in &found.comparison.new_services {
        recommendations.push(format!("`{key}` is new since the scan of {last}."));
    }
    for change in &found.comparison.changes {
        let (key, from, to) = (&change.key, or_none(&change.from), or_none(&change.to));
        recommendations.push(match change.what {
            Some("version") => format!(
                "`{key}` went from version {from} to {to} since the scan of {last}: check that this was meant."
            ),
            Some(what) => format!(
                "The {what} of `{key}` went from {from} to {to} since the scan of {last}: check that this was meant."
            ),
            None => format!(
                "`{key}` is gone since the scan of {last}: check that this was meant."
            ),
        });
    }
}

fn could_be_better(found: &Found<'_>, recommendations: &mut Vec<String>) {
    let sized = found.caches.iter().filter(|cache| cache.name != PRICES);
    for cache in sized {
        let lookups = cache.hits.saturating_add(cache.misses);
        let is_low = cache.hits.saturating_mul(100) < lookups.saturating_mul(CACHE_HIT_PERCENT);
        if lookups >= CACHE_LOOKUPS && is_low {
            recommendations.push(format!(
                "The cache of {} found {} of {lookups} look-ups: it may be too small for what is asked.",
                cache.name, cache.hits
            ));
        }
    }
    let services = found.report.services.iter();
    let without = services.filter(|(_, service)| service.status == HealthStatus::Unknown);
    let without: Vec<String> = without.map(|(key, _)| format!("`{key}`")).collect();
    if !without.is_empty() {
        recommendations.push(format!(
            "Nobody said where these services are, so nothing is known of them: {}. Set them in `platform.services`.",
            without.join(", ")
        ));
    }
}

fn is_over(used: u64, most: u64, percent: u64) -> bool {
    most > 0 && u128::from(used) * 100 >= u128::from(most) * u128::from(percent)
}

fn or_none(text: &str) -> &str {
    match text {
        "" => "none",
        text => text,
    }
}

/// A size such as `12.3 MiB`.
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
        limping: Vec<String>,
    }

    fn well() -> Case {
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
            limping: Vec::new(),
        }
    }

    fn advice(case: &Case) -> Advice {
        advise(&Found {
            report: &case.report,
            problems: &case.problems,
            unhealthy_since: &case.since,
            history: case.history,
            comparison: &case.comparison,
            log: case.log.as_ref(),
            disk: case.disk,
            caches: &case.caches,
            limping: &case.limping,
        })
    }

    /// Exactly one recommendation with these words, which counts as an issue or not.
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
    fn a_platform_that_is_well_needs_nothing() {
        assert_eq!(advice(&well()), Advice::default());
    }

    #[test]
    fn whatever_is_down_is_named_with_why_and_since_when() {
        let mut case = well();
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
                "not so at the scan of 2026-11-20",
            ],
        );
        case.since = BTreeMap::from([("a".to_owned(), "2026-11-01".to_owned())]);
        says(&case, 1, &["since the scan of 2026-11-01"]);
        let mut case = well();
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
    fn what_is_nearly_used_up_is_an_issue() {
        let mut case = well();
        case.report.infrastructure.database.connections.active = 26;
        says(&case, 1, &["26 of 32", "max_connections"]);
        let mut case = well();
        case.log.as_mut().unwrap().lag_records = Some(LAG_RECORDS);
        says(&case, 1, &["10000 records"]);
        let mut case = well();
        case.log.as_mut().unwrap().bytes = Some((8 << 30, 10 << 30));
        says(&case, 1, &["8.0 GiB of at most 10.0 GiB", "log.max_bytes"]);
        let mut case = well();
        case.disk = Some(DiskReport {
            free_bytes: 1 << 30,
            total_bytes: 100 << 30,
        });
        says(&case, 1, &["1.0 GiB free of 100.0 GiB"]);
        let mut case = well();
        case.limping = vec!["A process limps.".to_owned()];
        says(&case, 1, &["limps"]);
    }

    #[test]
    fn changes_are_told_and_are_no_issues() {
        let mut case = well();
        let mut before = case.report.clone();
        before.services.get_mut("a").unwrap().version = "0.9".to_owned();
        case.comparison = compare(&before, &case.report);
        says(&case, 0, &["`a` went from version 0.9 to 1.0", LAST]);
        before = case.report.clone();
        before.services.remove("b");
        case.comparison = compare(&before, &case.report);
        says(&case, 0, &["`b` is new"]);
        case.comparison = compare(&report(&["a", "b", "c"]), &case.report);
        says(&case, 0, &["`c` is gone"]);
        case.comparison = Comparison::default();
        case.history = History::Empty;
        says(&case, 0, &["first scan"]);
    }

    #[test]
    fn hints_are_given_where_something_could_be_better() {
        let mut case = well();
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
        says(&case, 0, &["cache of hot_runs", "499 of 1000"]);
        for fine in [cache(500, 500), cache(0, 999), named(PRICES, 0, 9999)] {
            case.caches = vec![fine];
            assert_eq!(advice(&case), Advice::default());
        }
        let mut case = well();
        for key in ["a", "b"] {
            case.report.services.get_mut(key).unwrap().status = HealthStatus::Unknown;
        }
        says(&case, 0, &["`a`, `b`", "platform.services"]);
    }

    #[test]
    fn there_are_never_more_than_a_report_has_and_all_are_counted_x1() {
        let mut case = well();
        case.limping = (0..200).map(|n| format!("{n}.")).collect();
        let mut advice = advice(&case);
        let shown = bounded(&advice.recommendations);
        assert_eq!((advice.issues, shown.len()), (200, 50));
        assert_eq!(shown[49], "151 more are not shown.");
        add_issue(&mut advice, "One more.");
        let shown = bounded(&advice.recommendations);
        assert_eq!((advice.issues, shown.len()), (201, 50));
        assert_eq!(shown[0], "One more.");
        assert_eq!(shown[49], "152 more are not shown.");
        assert_eq!(bounded(&shown), shown);
    }
}
