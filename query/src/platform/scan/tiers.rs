//! Spindle's tiers as services, and their caches, from the heartbeats of its processes. Pure.

use std::collections::{BTreeMap, BTreeSet};

use schemas::control::CacheReport;

use super::report::{HealthStatus, ServiceRecord, UNKNOWN};
use super::settings::TIER_KEYS;
use schemas::control::KnownProcess;

/// A tier of Spindle. `role` is the role of a process that runs this tier only, `parts` are the parts it requires.
struct Tier {
    key: &'static str,
    name: &'static str,
    role: &'static str,
    parts: &'static [&'static str],
    capabilities: &'static [&'static str],
}

const TIERS: [Tier; 3] = [
    Tier {
        key: TIER_KEYS[0],
        name: "Spindle ingest",
        role: "ingest",
        parts: &["log", "credentials"],
        capabilities: &["event-reporting"],
    },
    Tier {
        key: TIER_KEYS[1],
        name: "Spindle processor",
        role: "processor",
        parts: &["engine", "migrations", "log", "processor"],
        capabilities: &["run-folding", "pricing", "jobs"],
    },
    Tier {
        key: TIER_KEYS[2],
        name: "Spindle query",
        role: "query",
        parts: &["engine", "migrations", "credentials"],
        capabilities: &[
            "runs",
            "threads",
            "analytics",
            "datasets",
            "administration",
            "process-start",
        ],
    },
];
/// The role of a process that runs all tiers.
const EVERY_TIER: &str = "serve";

impl Tier {
    /// The parts of this tier that do not work in this process, with reasons.
    fn lacks<'a>(&self, known: &'a KnownProcess) -> Vec<&'a (String, String)> {
        let is_required = |part: &str| {
            known.heartbeat.role != EVERY_TIER
                || self.parts.contains(&part)
                || !TIERS.iter().any(|tier| tier.parts.contains(&part))
        };
        let missing = known.heartbeat.missing.iter();
        missing.filter(|(part, _)| is_required(part)).collect()
    }

    fn state<'a>(&self, known: &'a [KnownProcess]) -> TierState<'a> {
        let is_member = |role: &str| [self.role, EVERY_TIER].contains(&role);
        let members = known
            .iter()
            .filter(|known| is_member(&known.heartbeat.role));
        let alive = members.clone().filter(|known| known.is_alive());
        let alive: Vec<&KnownProcess> = alive.collect();
        let healthy = alive.iter().find(|known| self.lacks(known).is_empty());
        let last = || members.min_by_key(|known| known.silent_ms);
        TierState {
            is_healthy: healthy.is_some(),
            representative: healthy.or(alive.first()).copied().or_else(last),
            alive,
        }
    }

    fn record(&self, known: &[KnownProcess], at: &str) -> ServiceRecord {
        let TierState {
            alive,
            is_healthy,
            representative,
        } = self.state(known);
        let error = match representative {
            _ if is_healthy => None,
            None => Some("no process of this tier sends heartbeats".to_owned()),
            Some(one) if alive.is_empty() => Some(format!(
                "the last heartbeat of this tier was {} s ago",
                one.silent_ms / 1000
            )),
            Some(one) => Some(describe(&self.lacks(one))),
        };
        let versions: BTreeSet<&str> = alive
            .iter()
            .map(|known| known.heartbeat.version.as_str())
            .collect();
        ServiceRecord {
            name: self.name.to_owned(),
            version: match versions.is_empty() {
                true => representative
                    .map_or(UNKNOWN, |known| &known.heartbeat.version)
                    .to_owned(),
                // Several while one replaces the other.
                false => versions.into_iter().collect::<Vec<_>>().join(", "),
            },
            status: match error {
                None => HealthStatus::Healthy,
                Some(_) => HealthStatus::Unhealthy,
            },
            endpoint: representative
                .map_or_else(String::new, |known| known.heartbeat.endpoint.clone()),
            capabilities: self
                .capabilities
                .iter()
                .map(|word| (*word).to_owned())
                .collect(),
            last_health_check: Some(at.to_owned()),
            error,
        }
    }
}

/// The processes of one tier.
struct TierState<'a> {
    alive: Vec<&'a KnownProcess>,
    /// Whether all parts of one of them work.
    is_healthy: bool,
    /// The process that represents the tier: a healthy one, else a live one, else the one with the newest heartbeat.
    representative: Option<&'a KnownProcess>,
}

fn describe(missing: &[&(String, String)]) -> String {
    let parts = missing.iter().map(|(part, why)| format!("{part}: {why}"));
    parts.collect::<Vec<_>>().join("; ")
}

/// The tiers by key. `None` for a server without access to other processes.
pub(crate) fn records(known: Option<&[KnownProcess]>, at: &str) -> BTreeMap<String, ServiceRecord> {
    let record = |tier: &Tier| {
        let mut record = tier.record(known.unwrap_or_default(), at);
        if known.is_none() {
            record.status = HealthStatus::Unknown;
            record.last_health_check = None;
            record.error = None;
        }
        (tier.key.to_owned(), record)
    };
    TIERS.iter().map(record).collect()
}

/// Issues of processes, as sentences, except those that the state of an unhealthy tier already contains.
pub(crate) fn process_issues(known: &[KnownProcess]) -> Vec<String> {
    let unhealthy = TIERS.iter().filter_map(|tier| {
        let state = tier.state(known);
        let representative = state.representative.filter(|_| !state.is_healthy)?;
        Some((tier, representative))
    });
    let unhealthy: Vec<(&Tier, &KnownProcess)> = unhealthy.collect();
    let mut issues = Vec::new();
    for known in known.iter().filter(|known| !known.heartbeat.leaving) {
        let reported = unhealthy
            .iter()
            .filter(|(_, representative)| std::ptr::eq(*representative, known));
        let reported: Vec<&Tier> = reported.map(|(tier, _)| *tier).collect();
        let heartbeat = &known.heartbeat;
        let which = format!("The {} process at {}", heartbeat.role, heartbeat.endpoint);
        if !known.is_alive() {
            if reported.is_empty() {
                issues.push(format!(
                    "{which} sent its last heartbeat {} s ago and did not shut down: check whether it was killed.",
                    known.silent_ms / 1000
                ));
            }
            continue;
        }
        let mut missing: Vec<&(String, String)> = heartbeat.missing.iter().collect();
        for tier in reported {
            let lacks = tier.lacks(known);
            missing.retain(|part| !lacks.contains(part));
        }
        if !missing.is_empty() {
            issues.push(format!("{which} is not ready ({}).", describe(&missing)));
        }
    }
    issues
}

/// The caches of all live processes, summed by name.
pub(crate) fn caches(known: &[KnownProcess]) -> Vec<CacheReport> {
    let mut all: BTreeMap<&str, CacheReport> = BTreeMap::new();
    let alive = known.iter().filter(|known| known.is_alive());
    for cache in alive.flat_map(|known| &known.heartbeat.caches) {
        let sum = all.entry(&cache.name).or_insert_with(|| CacheReport {
            name: cache.name.clone(),
            entries: 0,
            used_bytes: 0,
            max_bytes: 0,
            hits: 0,
            misses: 0,
        });
        for (sum, more) in [
            (&mut sum.entries, cache.entries),
            (&mut sum.used_bytes, cache.used_bytes),
            (&mut sum.max_bytes, cache.max_bytes),
            (&mut sum.hits, cache.hits),
            (&mut sum.misses, cache.misses),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
    all.into_values().collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use schemas::control::Heartbeat;

    use super::*;
    use schemas::control::ALIVE_WITHIN_MS;

    pub(crate) fn known(role: &str, silent_ms: u64, missing: &[(&str, &str)]) -> KnownProcess {
        let text = |text: &str| text.to_owned();
        KnownProcess {
            heartbeat: Heartbeat {
                process: text(role),
                role: text(role),
                version: text("0.1.0"),
                endpoint: format!("http://{role}:7070"),
                missing: missing
                    .iter()
                    .map(|(part, why)| (text(part), text(why)))
                    .collect(),
                caches: vec![CacheReport {
                    name: text("credentials"),
                    entries: 1,
                    used_bytes: 100,
                    max_bytes: 1000,
                    hits: 3,
                    misses: 1,
                }],
                ..Heartbeat::default()
            },
            silent_ms,
        }
    }

    fn errors(all: &[KnownProcess]) -> Vec<Option<String>> {
        let records = records(Some(all), "now");
        TIER_KEYS
            .iter()
            .map(|key| records[*key].error.clone())
            .collect()
    }

    #[test]
    fn a_process_of_all_tiers_is_every_tier() {
        let records = records(Some(&[known("serve", 0, &[])]), "now");
        assert_eq!(records.len(), 3);
        for record in records.values() {
            assert_eq!(record.status, HealthStatus::Healthy);
            assert_eq!(record.endpoint, "http://serve:7070");
            assert!(!record.capabilities.is_empty() && record.version == "0.1.0");
        }
    }

    #[test]
    fn only_required_parts_affect_a_tier() {
        let [ingest, processor, query] =
            &errors(&[known("serve", 0, &[("processor", "paused")])])[..]
        else {
            panic!("three tiers");
        };
        assert_eq!(
            (ingest, processor.as_deref(), query),
            (&None, Some("processor: paused"), &None)
        );
        let new = errors(&[known("serve", 0, &[("moon", "away")])]);
        assert!(
            new.iter().all(Option::is_some),
            "an unknown part affects all tiers"
        );
    }

    #[test]
    fn a_tier_is_healthy_while_one_of_its_processes_is() {
        let all = [
            known("query", 0, &[]),
            known("query", 0, &[("engine", "away")]),
            known("ingest", ALIVE_WITHIN_MS + 1, &[]),
        ];
        let [ingest, processor, query] = &errors(&all)[..] else {
            panic!("three tiers");
        };
        assert!(
            ingest.as_deref().unwrap().contains("10 s ago"),
            "{ingest:?}"
        );
        assert!(processor.as_deref().unwrap().contains("no process"));
        assert_eq!(query, &None);
        let issues = process_issues(&all);
        assert_eq!(issues.len(), 1, "ingest is in the tier: {issues:?}");
        assert!(issues[0].contains("engine: away"));
        let silent = known("query", ALIVE_WITHIN_MS + 1, &[]);
        let issues = process_issues(&[known("query", 0, &[]), silent]);
        assert!(
            issues.len() == 1 && issues[0].contains("last heartbeat"),
            "{issues:?}"
        );
    }

    #[test]
    fn an_issue_of_a_tier_is_not_repeated_for_its_process() {
        let paused = ("processor", "paused");
        let away = ("engine", "away");
        let unknown = ("credentials", "unknown");
        let healthy = known("query", 0, &[]);
        for (all, expected) in [
            (vec![known("query", 0, &[away])], &[][..]),
            (vec![known("serve", 0, &[paused])], &[]),
            (vec![known("serve", 0, &[away, paused, unknown])], &[]),
            (
                vec![known("query", 0, &[away]), known("query", 0, &[unknown])],
                &["(credentials: unknown)"],
            ),
            (
                vec![known("serve", 0, &[paused, ("engine", "slow")]), healthy],
                &[],
            ),
            (
                vec![
                    known("serve", 0, &[unknown, paused]),
                    known("ingest", 0, &[]),
                    known("query", 0, &[]),
                ],
                &["(credentials: unknown)"],
            ),
        ] {
            let issues = process_issues(&all);
            assert_eq!(issues.len(), expected.len(), "{issues:?}");
            for (issue, expected) in issues.iter().zip(expected) {
                assert!(issue.contains(expected), "{issue}");
            }
        }
    }

    #[test]
    fn caches_are_summed_by_name_over_live_processes() {
        let all = [
            known("query", 0, &[]),
            known("ingest", 0, &[]),
            known("processor", ALIVE_WITHIN_MS + 1, &[]),
        ];
        let sums = caches(&all);
        assert_eq!(sums.len(), 1);
        assert_eq!(
            (sums[0].used_bytes, sums[0].max_bytes, sums[0].hits),
            (200, 2000, 6)
        );
    }

    #[test]
    fn without_access_to_processes_tiers_are_unknown() {
        for record in records(None, "now").values() {
            assert_eq!(record.status, HealthStatus::Unknown);
            assert!(record.error.is_none() && record.last_health_check.is_none());
        }
    }
}
