//! The tiers of this program as services, and their caches: pure, from what its processes said of themselves.

use std::collections::{BTreeMap, BTreeSet};

use schemas::control::CacheReport;

use super::report::{HealthStatus, ServiceRecord, UNKNOWN};
use super::settings::TIER_KEYS;
use crate::platform::Heard;

/// A process that said nothing for longer is not there. They say something every few seconds.
pub(crate) const HEARD_WITHIN_MS: u64 = 10_000;

/// A tier: its name, the role of a process that is it and nothing else, the parts it cannot do without, what it
/// provides.
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
/// The role of a process that is every tier.
const EVERY_TIER: &str = "serve";

impl Tier {
    /// What this process lacks to be this tier.
    fn lacks(&self, heard: &Heard) -> Vec<String> {
        let missing = &heard.present.missing;
        let matters = |part: &str| {
            heard.present.role != EVERY_TIER
                || self.parts.contains(&part)
                || !TIERS.iter().any(|tier| tier.parts.contains(&part))
        };
        missing
            .iter()
            .filter(|(part, _)| matters(part))
            .map(|(part, why)| format!("{part}: {why}"))
            .collect()
    }

    fn record(&self, heard: &[Heard], at: &str) -> ServiceRecord {
        let ours = heard
            .iter()
            .filter(|heard| [self.role, EVERY_TIER].contains(&heard.present.role.as_str()));
        let ours: Vec<&Heard> = ours.collect();
        let there: Vec<&Heard> = ours
            .iter()
            .copied()
            .filter(|heard| is_there(heard))
            .collect();
        let well = there.iter().find(|heard| self.lacks(heard).is_empty());
        let error = match (&there[..], well) {
            (_, Some(_)) => None,
            ([], None) => Some(match ours.iter().map(|heard| heard.silent_ms).min() {
                Some(silent_ms) => format!(
                    "its last process was heard {} s ago and is silent since",
                    silent_ms / 1000
                ),
                None => "no process of this tier was heard".to_owned(),
            }),
            ([one, ..], None) => Some(self.lacks(one).join("; ")),
        };
        let shown = well.or(there.first()).or(ours.first());
        let versions: BTreeSet<&str> = there
            .iter()
            .map(|heard| heard.present.version.as_str())
            .collect();
        ServiceRecord {
            name: self.name.to_owned(),
            version: match versions.is_empty() {
                true => shown
                    .map_or(UNKNOWN, |heard| &heard.present.version)
                    .to_owned(),
                // Several while one replaces the other.
                false => versions.into_iter().collect::<Vec<_>>().join(", "),
            },
            status: match error {
                None => HealthStatus::Healthy,
                Some(_) => HealthStatus::Unhealthy,
            },
            endpoint: shown.map_or_else(String::new, |heard| heard.present.endpoint.clone()),
            capabilities: self
                .capabilities
                .iter()
                .map(|word| (*word).to_owned())
                .collect(),
            last_health_check: at.to_owned(),
            error,
        }
    }
}

fn is_there(heard: &Heard) -> bool {
    !heard.present.leaves && heard.silent_ms <= HEARD_WITHIN_MS
}

/// The tiers by their keys. `None` where nobody listens to processes.
pub(crate) fn records(heard: Option<&[Heard]>, at: &str) -> BTreeMap<String, ServiceRecord> {
    let record = |tier: &Tier| {
        let mut record = tier.record(heard.unwrap_or_default(), at);
        if heard.is_none() {
            record.status = HealthStatus::Unknown;
            record.error = None;
        }
        (tier.key.to_owned(), record)
    };
    TIERS.iter().map(record).collect()
}

/// Processes that are not well beside others of their tier that are, as sentences.
pub(crate) fn limping(heard: &[Heard]) -> Vec<String> {
    let mut limping = Vec::new();
    for heard in heard.iter().filter(|heard| !heard.present.leaves) {
        let present = &heard.present;
        let which = format!("The {} process at {}", present.role, present.endpoint);
        if !is_there(heard) {
            limping.push(format!(
                "{which} fell silent {} s ago without taking its leave: look whether it was killed.",
                heard.silent_ms / 1000
            ));
        } else if !present.missing.is_empty() {
            let parts = present.missing.iter();
            let parts: Vec<String> = parts.map(|(part, why)| format!("{part}: {why}")).collect();
            limping.push(format!("{which} is not ready ({}).", parts.join("; ")));
        }
    }
    limping
}

/// The caches of all processes that are there, those of one name together.
pub(crate) fn caches(heard: &[Heard]) -> Vec<CacheReport> {
    let mut all: BTreeMap<&str, CacheReport> = BTreeMap::new();
    let there = heard.iter().filter(|heard| is_there(heard));
    for cache in there.flat_map(|heard| &heard.present.caches) {
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
    use schemas::control::Present;

    use super::*;

    /// A process as it is heard.
    pub(crate) fn heard(role: &str, silent_ms: u64, missing: &[(&str, &str)]) -> Heard {
        let text = |text: &str| text.to_owned();
        Heard {
            present: Present {
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
                cleared: Vec::new(),
                leaves: false,
            },
            silent_ms,
        }
    }

    fn errors(all: &[Heard]) -> Vec<Option<String>> {
        let records = records(Some(all), "now");
        TIER_KEYS
            .iter()
            .map(|key| records[*key].error.clone())
            .collect()
    }

    #[test]
    fn one_process_of_everything_is_every_tier() {
        let records = records(Some(&[heard("serve", 0, &[])]), "now");
        assert_eq!(records.len(), 3);
        for record in records.values() {
            assert_eq!(record.status, HealthStatus::Healthy);
            assert_eq!(record.endpoint, "http://serve:7070");
            assert!(!record.capabilities.is_empty() && record.version == "0.1.0");
        }
    }

    #[test]
    fn a_tier_lacks_only_what_it_needs() {
        let [ingest, processor, query] =
            &errors(&[heard("serve", 0, &[("processor", "paused")])])[..]
        else {
            panic!("three tiers");
        };
        assert_eq!(
            (ingest, processor.as_deref(), query),
            (&None, Some("processor: paused"), &None)
        );
        let new = errors(&[heard("serve", 0, &[("moon", "away")])]);
        assert!(
            new.iter().all(Option::is_some),
            "a part nobody knows here matters to all"
        );
    }

    #[test]
    fn a_tier_is_well_while_one_of_its_processes_is() {
        let all = [
            heard("query", 0, &[]),
            heard("query", 0, &[("engine", "away")]),
            heard("ingest", HEARD_WITHIN_MS + 1, &[]),
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
        let said = limping(&all);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].contains("engine: away") && said[1].contains("silent"));
    }

    #[test]
    fn caches_of_one_name_are_one_and_the_silent_have_none() {
        let all = [
            heard("query", 0, &[]),
            heard("ingest", 0, &[]),
            heard("processor", HEARD_WITHIN_MS + 1, &[]),
        ];
        let sums = caches(&all);
        assert_eq!(sums.len(), 1);
        assert_eq!(
            (sums[0].used_bytes, sums[0].max_bytes, sums[0].hits),
            (200, 2000, 6)
        );
    }

    #[test]
    fn nobody_listening_is_no_judgement() {
        let records = records(None, "now");
        assert!(
            records
                .values()
                .all(|record| record.status == HealthStatus::Unknown && record.error.is_none())
        );
    }
}
