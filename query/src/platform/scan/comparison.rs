//! A report beside the one before it: pure.
//!
//! Configuration is what somebody sets: names, versions, addresses, capabilities, kinds, bounds. How something is, and
//! how many brokers, topics or buckets answer just now, is not.

use std::collections::{BTreeMap, BTreeSet};

use super::report::{HealthStatus, ScanReport, ServiceRecord, UNKNOWN};
use super::settings::TIER_KEYS;

/// What is otherwise than before.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Comparison {
    /// Keys of services that were not there.
    pub(crate) new_services: Vec<String>,
    /// What is set otherwise, one entry each.
    pub(crate) changes: Vec<Change>,
}

/// One thing that is set otherwise.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// Key of the service or the system.
    pub(crate) key: String,
    /// What of it, such as `version`; `None` for a service that is gone.
    pub(crate) what: Option<&'static str>,
    /// What it was.
    pub(crate) from: String,
    /// What it is.
    pub(crate) to: String,
}

/// Lets what does not tell its version now keep the one it told last, so that its silence is no change and its return
/// with another version is one. Services in `told` said it themselves, well or not: theirs is true.
pub(crate) fn keep_versions(before: &ScanReport, now: &mut ScanReport, told: &BTreeSet<String>) {
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
            false => told.contains(key),
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

/// Compares a report with the one before it.
pub(crate) fn compare(before: &ScanReport, now: &ScanReport) -> Comparison {
    let is_new = |key: &&String| !before.services.contains_key(*key);
    let mut changes = Vec::new();
    for (key, was) in &before.services {
        match now.services.get(key) {
            Some(is) => of_service(key, was, is, &mut changes),
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
    let (was_outside, is_outside) = (&before.external_integrations, &now.external_integrations);
    let provider = (&was_outside.auth_provider, &is_outside.auth_provider);
    let storage = (&was_outside.document_storage, &is_outside.document_storage);
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

fn of_service(key: &str, was: &ServiceRecord, is: &ServiceRecord, changes: &mut Vec<Change>) {
    note(changes, key, "name", &was.name, &is.name);
    note(changes, key, "version", &was.version, &is.version);
    // Which process of a tier answers is not set by anybody.
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

/// Adds a change if there is one. A version that was or is not known has not changed: nobody knows.
fn note(changes: &mut Vec<Change>, key: &str, what: &'static str, from: &str, to: &str) {
    let nobody_knows = what == "version" && [from, to].contains(&UNKNOWN);
    if from != to && !nobody_knows {
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

/// What is unhealthy, and the time of the first of the scans in a row that found it so.
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
    fn services_that_come_are_new_and_those_that_go_are_a_change() {
        let found = compare(&report(&["a", "b"]), &report(&["b", "c", "d"]));
        assert_eq!(found.new_services, ["c", "d"]);
        assert_eq!(whats(&found), [("a", None)]);
    }

    #[test]
    fn what_is_set_counts_field_by_field_and_how_it_is_does_not() {
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
    fn a_service_that_returns_with_another_version_changed_however_long_it_was_away() {
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
    fn what_is_unhealthy_and_tells_its_version_is_believed() {
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
    fn the_first_scan_that_found_it_down_is_remembered_until_it_is_up() {
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
        fn nothing_changes_between_a_report_and_itself_and_new_and_gone_mirror_each_other(
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
