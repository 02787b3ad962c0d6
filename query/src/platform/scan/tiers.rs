//! The tiers of this program as services, and their caches: pure, from what its processes said of themselves.

use std::collections::{BTreeMap, BTreeSet};

use schemas::control::CacheReport;

use super::report::{HealthStatus, ServiceRecord, UNKNOWN};
use super::settings::TIER_KEYS;
use crate::platform::Heard;

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
    /// What this process lacks to be this tier: parts, and why.
    fn lacks<'a>(&self, heard: &'a Heard) -> Vec<&'a (String, String)> {
        let matters = |part: &str| {
            heard.present.role != EVERY_TIER
                || self.parts.contains(&part)
                || !TIERS.iter().any(|tier| tier.parts.contains(&part))
        };
        let missing = heard.present.missing.iter();
        missing.filter(|(part, _)| matters(part)).collect()
    }

    fn look<'a>(&self, heard: &'a [Heard]) -> Look<'a> {
        let is_ours = |role: &str| [self.role, EVERY_TIER].contains(&role);
        let ours = heard.iter().filter(|heard| is_ours(&heard.present.role));
        let there = ours.clone().filter(|heard| heard.is_there());
        let there: Vec<&Heard> = there.collect();
        let well = there.iter().find(|heard| self.lacks(heard).is_empty());
        let last = || ours.min_by_key(|heard| heard.silent_ms);
        Look {
            is_well: well.is_some(),
            shown: well.or(there.first()).copied().or_else(last),
            there,
        }
    }

    fn record(&self, heard: &[Heard], at: &str) -> ServiceRecord {
        let Look {
            there,
            is_well,
            shown,
        } = self.look(heard);
        let error = match shown {
            _ if is_well => None,
            None => Some("no process of this tier was heard".to_owned()),
            Some(one) if there.is_empty() => Some(format!(
                "its last process was heard {} s ago and is silent since",
                one.silent_ms / 1000
            )),
            Some(one) => Some(said(&self.lacks(one))),
        };
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

/// The processes of one tier.
struct Look<'a> {
    /// Those that are there.
    there: Vec<&'a Heard>,
    /// Whether one of them lacks nothing.
    is_well: bool,
    /// The one that the tier is judged by: one that is well, else one that is there, else the one heard last.
    shown: Option<&'a Heard>,
}

/// Parts that are missing, for a person.
fn said(missing: &[&(String, String)]) -> String {
    let parts = missing.iter().map(|(part, why)| format!("{part}: {why}"));
    parts.collect::<Vec<_>>().join("; ")
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

/// What processes lack that is not said of their tier already, as sentences: a tier that is unhealthy tells what the
/// process lacks that it is judged by.
pub(crate) fn limping(heard: &[Heard]) -> Vec<String> {
    let ill = TIERS.iter().filter_map(|tier| {
        let look = tier.look(heard);
        let shown = look.shown.filter(|_| !look.is_well)?;
        Some((tier, shown))
    });
    let ill: Vec<(&Tier, &Heard)> = ill.collect();
    let mut limping = Vec::new();
    for heard in heard.iter().filter(|heard| !heard.present.leaves) {
        let told = ill.iter().filter(|(_, shown)| std::ptr::eq(*shown, heard));
        let told: Vec<&Tier> = told.map(|(tier, _)| *tier).collect();
        let present = &heard.present;
        let which = format!("The {} process at {}", present.role, present.endpoint);
        if !heard.is_there() {
            if told.is_empty() {
                limping.push(format!(
                    "{which} fell silent {} s ago without taking its leave: look whether it was killed.",
                    heard.silent_ms / 1000
                ));
            }
            continue;
        }
        let mut missing: Vec<&(String, String)> = present.missing.iter().collect();
        for tier in told {
            let lacks = tier.lacks(heard);
            missing.retain(|part| !lacks.contains(part));
        }
        if !missing.is_empty() {
            limping.push(format!("{which} is not ready ({}).", said(&missing)));
        }
    }
    limping
}

/// The caches of all processes that are there, those of one name together.
pub(crate) fn caches(heard: &[Heard]) -> Vec<CacheReport> {
    let mut all: BTreeMap<&str, CacheReport> = BTreeMap::new();
    let there = heard.iter().filter(|heard| heard.is_there());
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
    use schemas::control::{EventCounts, Present};

    use super::*;
    use crate::platform::HEARD_WITHIN_MS;

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
                events: EventCounts::default(),
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
        assert_eq!(said.len(), 1, "the tier tells of ingest: {said:?}");
        assert!(said[0].contains("engine: away"));
        let silent = heard("query", HEARD_WITHIN_MS + 1, &[]);
        let said = limping(&[heard("query", 0, &[]), silent]);
        assert!(said.len() == 1 && said[0].contains("silent"), "{said:?}");
    }

    #[test]
    fn what_a_tier_tells_of_its_process_is_not_told_twice() {
        let paused = ("processor", "paused");
        let away = ("engine", "away");
        let deaf = ("credentials", "unknown");
        let well = heard("query", 0, &[]);
        for (all, expected) in [
            (vec![heard("query", 0, &[away])], &[][..]),
            (vec![heard("serve", 0, &[paused])], &[]),
            (vec![heard("serve", 0, &[away, paused, deaf])], &[]),
            (
                vec![heard("query", 0, &[away]), heard("query", 0, &[deaf])],
                &["(credentials: unknown)"],
            ),
            (
                vec![heard("serve", 0, &[paused, ("engine", "slow")]), well],
                &[],
            ),
            (
                vec![
                    heard("serve", 0, &[deaf, paused]),
                    heard("ingest", 0, &[]),
                    heard("query", 0, &[]),
                ],
                &["(credentials: unknown)"],
            ),
        ] {
            let said = limping(&all);
            assert_eq!(said.len(), expected.len(), "{said:?}");
            for (said, expected) in said.iter().zip(expected) {
                assert!(said.contains(expected), "{said}");
            }
        }
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
