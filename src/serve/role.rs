//! The tiers of a process, and what follows from them.

use anyhow::bail;

use super::health::Part;
use crate::config::Config;

/// The tiers that a process runs. Their code is the same in all roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    All,
    /// HTTP in, log out.
    Ingest,
    /// Log in, rows out.
    Processor,
    /// Rows out over HTTP, and administration.
    Query,
}

impl Role {
    /// The name of the command.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::All => "serve",
            Self::Ingest => "ingest",
            Self::Processor => "processor",
            Self::Query => "query",
        }
    }

    /// Whether it accepts events.
    pub(crate) fn ingests(self) -> bool {
        matches!(self, Self::All | Self::Ingest)
    }

    pub(crate) fn processes(self) -> bool {
        matches!(self, Self::All | Self::Processor)
    }

    /// Whether it serves reads and administration.
    pub(crate) fn queries(self) -> bool {
        matches!(self, Self::All | Self::Query)
    }

    /// Whether it uses a data folder.
    pub(crate) fn has_folder(self) -> bool {
        self.ingests()
    }

    /// What has to work before the process is ready for its role. Ingest accepts events without ClickHouse; query reads
    /// without the log.
    pub(crate) fn parts(self) -> &'static [Part] {
        match self {
            Self::All => &[
                Part::Engine,
                Part::Migrations,
                Part::Log,
                Part::Credentials,
                Part::Processor,
            ],
            Self::Ingest => &[Part::Log, Part::Credentials],
            Self::Processor => &[Part::Engine, Part::Migrations, Part::Log, Part::Processor],
            Self::Query => &[Part::Engine, Part::Migrations, Part::Credentials],
        }
    }

    /// Fails if a separate tier has an embedded log or engine: it shares both with other processes.
    pub(crate) fn check(self, config: &Config) -> anyhow::Result<()> {
        if self == Self::All {
            return Ok(());
        }
        let kafka = config
            .kafka
            .is_none()
            .then_some("the addresses of Kafka's brokers (`kafka.brokers`, or --kafka-brokers)");
        let clickhouse = config.clickhouse.urls.is_empty().then_some(
            "the address of a ClickHouse server (`clickhouse.url`, or --clickhouse-url)",
        );
        let missing: Vec<&str> = [kafka, clickhouse].into_iter().flatten().collect();
        if !missing.is_empty() {
            bail!(
                "`spindle {}` is one tier of several processes and needs {}; `spindle serve` runs everything in one process and needs neither",
                self.name(),
                missing.join(" and ")
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn config(flags: &[(&str, &str)]) -> Config {
        let flags: BTreeMap<String, String> = flags
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        Config::load(None, flags).unwrap().0
    }

    #[test]
    fn a_tier_says_all_it_lacks_and_serve_lacks_nothing() {
        let (kafka, clickhouse) = (("kafka.brokers", "a:1"), ("clickhouse.url", "http://b:2"));
        assert!(Role::All.check(&config(&[])).is_ok());
        for role in [Role::Ingest, Role::Processor, Role::Query] {
            let said = |flags: &[_]| role.check(&config(flags)).err().map(|e| e.to_string());
            let all = said(&[]).unwrap();
            assert!(
                all.contains("kafka.brokers")
                    && all.contains("clickhouse.url")
                    && all.contains(role.name()),
                "{all}"
            );
            assert!(!said(&[kafka]).unwrap().contains("kafka.brokers"));
            assert!(!said(&[clickhouse]).unwrap().contains("clickhouse.url"));
            assert_eq!(said(&[kafka, clickhouse]), None);
        }
    }
}
