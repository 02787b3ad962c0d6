//! What a scan found, as the interface writes it: every key is always there.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What stands where a version is not told.
pub(crate) const UNKNOWN: &str = "unknown";

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HealthStatus {
    /// It answers and says nothing against itself.
    Healthy,
    /// It does not answer, or says that something is wrong.
    Unhealthy,
    /// Nobody said where it is.
    Unknown,
}

/// The report of a scan of the platform.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScanReport {
    /// When the scan was over, ISO 8601.
    #[schema(format = DateTime)]
    pub(crate) scan_timestamp: String,
    /// Services, those without an address among them.
    pub(crate) total_services: u64,
    /// Healthy ones.
    pub(crate) healthy_services: u64,
    /// Those with problems, and those that cannot be reached.
    pub(crate) unhealthy_services: u64,
    /// Each service by its key.
    pub(crate) services: BTreeMap<String, ServiceRecord>,
    /// What the services stand on.
    pub(crate) infrastructure: InfrastructureRecord,
    /// Systems of others.
    pub(crate) external_integrations: IntegrationsRecord,
    /// The scan in short.
    pub(crate) summary: ScanSummary,
}

/// A service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServiceRecord {
    /// For a person.
    pub(crate) name: String,
    /// What its health answer tells, else what the settings say, else `unknown`.
    pub(crate) version: String,
    /// How it is.
    pub(crate) status: HealthStatus,
    /// Where it is reached; empty where nobody said.
    pub(crate) endpoint: String,
    /// What it provides.
    pub(crate) capabilities: Vec<String>,
    /// When it was last asked; without an address, when it was last looked for.
    #[schema(format = DateTime)]
    pub(crate) last_health_check: String,
    /// Why it is unhealthy; only then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) error: Option<String>,
}

/// What the services stand on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InfrastructureRecord {
    /// The tables.
    pub(crate) database: DatabaseRecord,
    /// The event log.
    pub(crate) message_broker: BrokerRecord,
    /// What processes keep in memory.
    pub(crate) cache_store: CacheStoreRecord,
}

/// The database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DatabaseRecord {
    /// What it is.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// Its version.
    pub(crate) version: String,
    /// How it is.
    pub(crate) status: HealthStatus,
    /// Reads of the process that scanned.
    pub(crate) connections: ConnectionsRecord,
    /// When it was asked.
    #[schema(format = DateTime)]
    pub(crate) last_health_check: String,
}

/// Connections of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ConnectionsRecord {
    /// In use.
    pub(crate) active: u64,
    /// Free.
    pub(crate) idle: u64,
    /// The bound.
    pub(crate) max: u64,
}

/// The event log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BrokerRecord {
    /// `kafka` or `embedded`.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// Its version, `unknown` where it does not tell.
    pub(crate) version: String,
    /// How it is.
    pub(crate) status: HealthStatus,
    /// Brokers that answer for it.
    pub(crate) brokers: u64,
    /// Topics there are.
    pub(crate) topics: u64,
    /// When it was asked.
    #[schema(format = DateTime)]
    pub(crate) last_health_check: String,
}

/// The caches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CacheStoreRecord {
    /// What it is.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// Its version.
    pub(crate) version: String,
    /// How it is.
    pub(crate) status: HealthStatus,
    /// Of all processes together.
    pub(crate) memory: MemoryRecord,
    /// When it was asked.
    #[schema(format = DateTime)]
    pub(crate) last_health_check: String,
}

/// Sizes such as `12.3 MiB`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct MemoryRecord {
    /// Taken.
    pub(crate) used: String,
    /// Free up to the bounds.
    pub(crate) available: String,
}

/// Systems of others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IntegrationsRecord {
    /// The identity provider.
    pub(crate) auth_provider: AuthProviderRecord,
    /// Where documents lie.
    pub(crate) document_storage: DocumentStorageRecord,
}

/// The identity provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuthProviderRecord {
    /// For a person.
    pub(crate) name: String,
    /// How it is.
    pub(crate) status: HealthStatus,
    /// Its issuer; empty where none is set.
    pub(crate) endpoint: String,
    /// When it was asked.
    #[schema(format = DateTime)]
    pub(crate) last_health_check: String,
}

/// Where documents lie.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DocumentStorageRecord {
    /// For a person.
    pub(crate) name: String,
    /// How it is.
    pub(crate) status: HealthStatus,
    /// Its address; empty where none is set.
    pub(crate) endpoint: String,
    /// Buckets that the credentials see.
    pub(crate) buckets: u64,
    /// When it was asked.
    #[schema(format = DateTime)]
    pub(crate) last_health_check: String,
}

/// A scan in short.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScanSummary {
    /// How long it took, such as `1.234s`.
    pub(crate) scan_duration: String,
    /// Services that the last stored scan did not know.
    pub(crate) new_services_found: u64,
    /// What is set otherwise than at the last stored scan.
    pub(crate) configuration_changes: u64,
    /// What is wrong.
    pub(crate) issues_detected: u64,
    /// What to do, the most pressing first.
    pub(crate) recommendations: Vec<String>,
}

/// What the history and the next scan need of one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ScanDigest {
    /// Services in all.
    pub(crate) total_services: u64,
    /// Healthy ones.
    pub(crate) healthy_services: u64,
    /// Unhealthy ones.
    pub(crate) unhealthy_services: u64,
    /// The scan in short.
    pub(crate) summary: ScanSummary,
    /// What was unhealthy, by its key, and the time of the first of the scans in a row that found it so.
    pub(crate) unhealthy_since: BTreeMap<String, String>,
}

impl ScanReport {
    /// Counts the services by how they are.
    pub(crate) fn count(&mut self) {
        let count = |status| {
            let found = self
                .services
                .values()
                .filter(|service| service.status == status);
            found.count() as u64
        };
        self.total_services = self.services.len() as u64;
        self.healthy_services = count(HealthStatus::Healthy);
        self.unhealthy_services = count(HealthStatus::Unhealthy);
    }

    /// The keys of everything that is unhealthy: services, infrastructure, integrations.
    pub(crate) fn unhealthy(&self) -> impl Iterator<Item = &str> {
        let services = self
            .services
            .iter()
            .map(|(key, service)| (key.as_str(), service.status));
        let (on, outside) = (&self.infrastructure, &self.external_integrations);
        let others = [
            ("database", on.database.status),
            ("messageBroker", on.message_broker.status),
            ("cacheStore", on.cache_store.status),
            ("authProvider", outside.auth_provider.status),
            ("documentStorage", outside.document_storage.status),
        ];
        services
            .chain(others)
            .filter(|(_, status)| *status == HealthStatus::Unhealthy)
            .map(|(key, _)| key)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const AT: &str = "2026-11-21T10:00:00.000Z";

    /// A service that is well.
    pub(crate) fn service(name: &str) -> ServiceRecord {
        ServiceRecord {
            name: name.to_owned(),
            version: "1.0".to_owned(),
            status: HealthStatus::Healthy,
            endpoint: format!("http://{name}:80"),
            capabilities: vec!["a".to_owned()],
            last_health_check: AT.to_owned(),
            error: None,
        }
    }

    /// A platform of these services that is well.
    pub(crate) fn report(services: &[&str]) -> ScanReport {
        let status = HealthStatus::Healthy;
        let text = str::to_owned;
        let mut report = ScanReport {
            scan_timestamp: text(AT),
            total_services: 0,
            healthy_services: 0,
            unhealthy_services: 0,
            services: services
                .iter()
                .map(|key| (text(key), service(key)))
                .collect(),
            infrastructure: InfrastructureRecord {
                database: DatabaseRecord {
                    kind: text("ClickHouse"),
                    version: text("26.1"),
                    status,
                    connections: ConnectionsRecord {
                        active: 1,
                        idle: 31,
                        max: 32,
                    },
                    last_health_check: text(AT),
                },
                message_broker: BrokerRecord {
                    kind: text("kafka"),
                    version: text(UNKNOWN),
                    status,
                    brokers: 3,
                    topics: 9,
                    last_health_check: text(AT),
                },
                cache_store: CacheStoreRecord {
                    kind: text("in-memory"),
                    version: text("0.1.0"),
                    status,
                    memory: MemoryRecord {
                        used: text("1.0 MiB"),
                        available: text("9.0 MiB"),
                    },
                    last_health_check: text(AT),
                },
            },
            external_integrations: IntegrationsRecord {
                auth_provider: AuthProviderRecord {
                    name: text("Provider"),
                    status,
                    endpoint: text("https://id"),
                    last_health_check: text(AT),
                },
                document_storage: DocumentStorageRecord {
                    name: text("Storage"),
                    status,
                    endpoint: text("https://s3"),
                    buckets: 2,
                    last_health_check: text(AT),
                },
            },
            summary: ScanSummary::default(),
        };
        report.count();
        report
    }

    #[test]
    fn those_without_an_address_count_in_the_total_only() {
        let mut found = report(&["a", "b", "c"]);
        for (key, status) in [("a", HealthStatus::Unknown), ("b", HealthStatus::Unhealthy)] {
            found.services.get_mut(key).unwrap().status = status;
        }
        found.count();
        let counts = (
            found.total_services,
            found.healthy_services,
            found.unhealthy_services,
        );
        assert_eq!(counts, (3, 1, 1));
        assert_eq!(found.unhealthy().collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn a_report_reads_back_as_it_was_written_and_names_are_those_of_the_interface() {
        let mut found = report(&["svcEngine"]);
        let text = serde_json::to_string(&found).unwrap();
        assert!(!text.contains("\"error\""), "only of what is unhealthy");
        for name in [
            "scanTimestamp",
            "externalIntegrations",
            "lastHealthCheck",
            "messageBroker",
            "cacheStore",
            "authProvider",
            "documentStorage",
            "newServicesFound",
            "configurationChanges",
            "\"type\"",
        ] {
            assert!(text.contains(name), "{name}");
        }
        assert_eq!(serde_json::from_str::<ScanReport>(&text).unwrap(), found);
        found.services.get_mut("svcEngine").unwrap().error = Some("timed out".to_owned());
        assert!(serde_json::to_string(&found).unwrap().contains("\"error\""));
    }
}
