//! Compares a report with the previous one. Pure.
//!
//! Only configuration counts as a change: names, versions, addresses, capabilities, kinds, bounds; not health, and not
//! the number of brokers, topics or buckets.

use std::collections::{BTreeMap, BTreeSet};

use super::report::{HealthStatus, ScanReport, ServiceRecord, UNKNOWN};
use super::settings::TIER_KEYS;

/// Differences to the previous report.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Comparison {
    /// Keys of new services.
    pub(crate) new_services: Vec<String>,
    pub(crate) changes: Vec<Change>,
}

/// A changed setting.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// Key of the service or system.
    pub(crate) key: String,
    /// The field, for example `version`; `None` for a removed service.
    pub(crate) what: Option<&'static str>,
    pub(crate) from: String,
    pub(crate) to: String,
}

/// An unhealthy system without a version in its response keeps its last known version, so that an outage is not a change
/// of version and a new version after it is. Services in `with_version` have reported their version.
pub(crate) fn keep_versions(
    before: &ScanReport,
    now: &mut ScanReport,
    with_version: &BTreeSet<String>,
) {
    let keep = |(status, is_told): (HealthStatus, bool), version: &mut String, known: &str| {
        if status == HealthStatus::Unhealthy && !is_told && known != UNKNOWN {
            known.clone_into(version);
        }
    };
    for (key, service) in &mut now.services {
        let Some(known) = before.services.get(key) else {
            continue;
        };
        let is_told = match is_tier(key) {
            true => service.version != UNKNOWN,
            false => with_version.contains(key),
        };
        if known.endpoint == service.endpoint || is_tier(key) {
            let how = (service.status, is_told);
            keep(how, &mut service.version, &known.version);
        }
    }
    let (known, infrastructure) = (&before.infrastructure, &mut now.infrastructure);
    let database = &mut infrastructure.database;
    let how = (database.status, database.version != UNKNOWN);
    keep(how, &mut database.version, &known.database.version);
    let broker = &mut infrastructure.message_broker;
    if broker.kind == known.message_broker.kind {
        let how = (broker.status, broker.version != UNKNOWN);
        keep(how, &mut broker.version, &known.message_broker.version);
    }
}

pub(crate) fn compare(before: &ScanReport, now: &ScanReport) -> Comparison {
    let is_new = |key: &&String| !before.services.contains_key(*key);
    let mut changes = Vec::new();
    for (key, was) in &before.services {
        match now.services.get(key) {
            Some(is) => compare_service(key, was, is, &mut changes),
            None => changes.push(Change {
                key: key.clone(),
                what: None,
                from: was.endpoint.clone(),
                to: String::new(),
            }),
        }
    }
    let (was, is) = (&before.infrastructure, &now.infrastructure);
    let max = |report: &ScanReport| report.infrastructure.database.connections.max.to_string();
    let (was_external, is_external) = (&before.external_integrations, &now.external_integrations);
    let provider = (&was_external.auth_provider, &is_external.auth_provider);
    let storage = (
        &was_external.document_storage,
        &is_external.document_storage,
    );
    for (key, what, from, to) in [
        ("database", "type", &was.database.kind, &is.database.kind),
        (
            "database",
            "version",
            &was.database.version,
            &is.database.version,
        ),
        ("database", "connections.max", &max(before), &max(now)),
        (
            "messageBroker",
            "type",
            &was.message_broker.kind,
            &is.message_broker.kind,
        ),
        (
            "messageBroker",
            "version",
            &was.message_broker.version,
            &is.message_broker.version,
        ),
        (
            "cacheStore",
            "type",
            &was.cache_store.kind,
            &is.cache_store.kind,
        ),
        (
            "cacheStore",
            "version",
            &was.cache_store.version,
            &is.cache_store.version,
        ),
        ("authProvider", "name", &provider.0.name, &provider.1.name),
        (
            "authProvider",
            "endpoint",
            &provider.0.endpoint,
            &provider.1.endpoint,
        ),
        ("documentStorage", "name", &storage.0.name, &storage.1.name),
        (
            "documentStorage",
            "endpoint",
            &storage.0.endpoint,
            &storage.1.endpoint,
        ),
    ] {
        note(&mut changes, key, what, from, to);
    }
    Comparison {
        new_services: now.services.keys().filter(is_new).cloned().collect(),
        changes,
    }
}

fn compare_service(key: &str, was: &ServiceRecord, is: &ServiceRecord, changes: &mut Vec<Change>) {
    note(changes, key, "name", &was.name, &is.name);
    note(changes, key, "version", &was.version, &is.version);
    // Which process of a tier answers is not a setting.
    if !is_tier(key) {
        note(changes, key, "endpoint", &was.endpoint, &is.endpoint);
    }
    let list = |service: &ServiceRecord| {
        let mut words = service.capabilities.clone();
        words.sort_unstable();
        words.join(", ")
    };
    note(changes, key, "capabilities", &list(was), &list(is));
}

/// Adds a change if the values differ. An unknown version is not a change.
fn note(changes: &mut Vec<Change>, key: &str, what: &'static str, from: &str, to: &str) {
    let is_unknown = what == "version" && [from, to].contains(&UNKNOWN);
    if from != to && !is_unknown {
        changes.push(Change {
            key: key.to_owned(),
            what: Some(what),
            from: from.to_owned(),
            to: to.to_owned(),
        });
    }
}

fn is_tier(key: &str) -> bool {
    TIER_KEYS.contains(&key)
}

/// The unhealthy systems, with the time of the first of consecutive scans that found them unhealthy.
pub(crate) fn unhealthy_since(
    before: &BTreeMap<String, String>,
    now: &ScanReport,
) -> BTreeMap<String, String> {
    let since = |key: &str| before.get(key).unwrap_or(&now.scan_timestamp).clone();
    now.unhealthy()
        .map(|key| (key.to_owned(), since(key)))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::report::tests::{AT, report, service};
    use super::*;

    fn whats(comparison: &Comparison) -> Vec<(&str, Option<&str>)> {
        let changes = comparison.changes.iter();
        changes
            .map(|change| (change.key.as_str(), change.what))
            .collect()
    }

    #[test]
    fn added_services_are_new_and_removed_services_are_a_change() {
        let found = compare(&report(&["a", "b"]), &report(&["b", "c", "d"]));
        assert_eq!(found.new_services, ["c", "d"]);
        assert_eq!(whats(&found), [("a", None)]);
    }

    #[test]
    fn settings_are_compared_by_field_and_health_is_not() {
        let before = report(&["a", "b", "spindleQuery"]);
        let mut now = before.clone();
        now.services.insert(
            "a".to_owned(),
            ServiceRecord {
                name: "A".to_owned(),
                version: "2.0".to_owned(),
                endpoint: "http://elsewhere".to_owned(),
                capabilities: vec!["b".to_owned()],
                ..service("a")
            },
        );
        let b = now.services.get_mut("b").unwrap();
        b.status = HealthStatus::Unhealthy;
        b.error = Some("down".to_owned());
        now.services.get_mut("spindleQuery").unwrap().endpoint = "http://another".to_owned();
        now.infrastructure.message_broker.brokers = 2;
        now.infrastructure.message_broker.topics = 90;
        now.infrastructure.message_broker.version = "4.0".to_owned();
        now.infrastructure.database.connections.active = 9;
        now.infrastructure.database.connections.max = 64;
        now.external_integrations.document_storage.buckets = 7;
        now.external_integrations.auth_provider.endpoint = "https://other".to_owned();
        let found = compare(&before, &now);
        assert_eq!(
            whats(&found),
            [
                ("a", Some("name")),
                ("a", Some("version")),
                ("a", Some("endpoint")),
                ("a", Some("capabilities")),
                ("database", Some("connections.max")),
                ("authProvider", Some("endpoint")),
            ]
        );
    }

    #[test]
    fn a_new_version_after_an_outage_is_a_change() {
        let first = report(&["a"]);
        let mut down = first.clone();
        for version in ["unknown", "configured"] {
            let service = down.services.get_mut("a").unwrap();
            service.status = HealthStatus::Unhealthy;
            service.version = version.to_owned();
            keep_versions(&first, &mut down, &BTreeSet::new());
            assert_eq!(down.services["a"].version, "1.0");
        }
        assert_eq!(compare(&first, &down), Comparison::default());
        let mut back = first.clone();
        back.services.get_mut("a").unwrap().version = "2.0".to_owned();
        keep_versions(&down, &mut back, &BTreeSet::new());
        let found = compare(&down, &back);
        assert_eq!(whats(&found), [("a", Some("version"))]);
        assert_eq!(
            (found.changes[0].from.as_str(), found.changes[0].to.as_str()),
            ("1.0", "2.0")
        );
    }

    #[test]
    fn the_version_of_an_unhealthy_service_is_used_if_it_reports_one() {
        let first = report(&["a", "spindleQuery"]);
        let mut now = first.clone();
        for service in now.services.values_mut() {
            service.status = HealthStatus::Unhealthy;
            service.version = "2.0".to_owned();
        }
        keep_versions(&first, &mut now, &BTreeSet::from(["a".to_owned()]));
        let found = compare(&first, &now);
        assert_eq!(
            whats(&found),
            [("a", Some("version")), ("spindleQuery", Some("version"))]
        );
        now.services.get_mut("spindleQuery").unwrap().version = UNKNOWN.to_owned();
        keep_versions(&first, &mut now, &BTreeSet::new());
        assert_eq!(now.services["spindleQuery"].version, "1.0");
        assert_eq!(compare(&first, &now), Comparison::default());
    }

    #[test]
    fn the_first_unhealthy_scan_is_kept_until_the_system_is_healthy() {
        let mut first = report(&["a", "b"]);
        first.services.get_mut("a").unwrap().status = HealthStatus::Unhealthy;
        let since = unhealthy_since(&BTreeMap::new(), &first);
        assert_eq!(since, BTreeMap::from([("a".to_owned(), AT.to_owned())]));
        let mut second = first.clone();
        second.scan_timestamp = "later".to_owned();
        second.infrastructure.database.status = HealthStatus::Unhealthy;
        let since = unhealthy_since(&since, &second);
        assert_eq!(
            (since["a"].as_str(), since["database"].as_str()),
            (AT, "later")
        );
        assert!(unhealthy_since(&since, &report(&["a"])).is_empty());
    }

    proptest! {
        #[test]
        fn a_report_equals_itself_and_added_services_are_removed_in_reverse(
            before in proptest::collection::btree_set("[a-e]", 0..5),
            now in proptest::collection::btree_set("[a-e]", 0..5),
        ) {
            let keys = |set: &std::collections::BTreeSet<String>| -> Vec<String> { set.iter().cloned().collect() };
            let (before, now) = (keys(&before), keys(&now));
            let names = |keys: &[String]| report(&keys.iter().map(String::as_str).collect::<Vec<_>>());
            let (before, now) = (names(&before), names(&now));
            prop_assert_eq!(compare(&before, &before), Comparison::default());
            let (there, back) = (compare(&before, &now), compare(&now, &before));
            let gone: Vec<String> = there.changes.iter().map(|change| change.key.clone()).collect();
            prop_assert_eq!(gone, back.new_services);
        }
    }
}
