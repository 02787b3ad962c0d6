//! The report of a scan, in the shape of the interface: every key always exists.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An unknown version.
pub(crate) const UNKNOWN: &str = "unknown";

/// Health of a service or system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HealthStatus {
    /// It answers and reports no problem.
    Healthy,
    /// It does not answer, or reports a problem.
    Unhealthy,
    /// It has no configured address.
    Unknown,
}

pub(crate) fn status_of(problem: &Option<String>) -> HealthStatus {
    match problem {
        None => HealthStatus::Healthy,
        Some(_) => HealthStatus::Unhealthy,
    }
}

/// The report of a scan of the platform.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScanReport {
    /// When the scan was completed, ISO 8601; the start plus `summary.scanDuration`.
    #[schema(format = DateTime)]
    pub(crate) scan_timestamp: String,
    /// Number of services, including those without an address.
    pub(crate) total_services: u64,
    /// Number of healthy services.
    pub(crate) healthy_services: u64,
    /// Number of services with problems or without an answer.
    pub(crate) unhealthy_services: u64,
    /// The services by key.
    pub(crate) services: BTreeMap<String, ServiceRecord>,
    /// Database, event log and caches.
    pub(crate) infrastructure: InfrastructureRecord,
    /// External systems.
    pub(crate) external_integrations: IntegrationsRecord,
    /// Summary of the scan.
    pub(crate) summary: ScanSummary,
}

/// A service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServiceRecord {
    /// Display name.
    pub(crate) name: String,
    /// Version of the health response, or of the settings, or `unknown`.
    pub(crate) version: String,
    pub(crate) status: HealthStatus,
    /// Address; empty if unknown.
    pub(crate) endpoint: String,
    pub(crate) capabilities: Vec<String>,
    /// Time of the check; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime)]
    pub(crate) last_health_check: Option<String>,
    /// Why it is unhealthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) error: Option<String>,
}

/// Database, event log and caches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InfrastructureRecord {
    pub(crate) database: DatabaseRecord,
    pub(crate) message_broker: BrokerRecord,
    /// The caches of all processes.
    pub(crate) cache_store: CacheStoreRecord,
}

/// The database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DatabaseRecord {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) version: String,
    pub(crate) status: HealthStatus,
    /// Connections of the process that scans.
    pub(crate) connections: ConnectionsRecord,
    /// Time of the check.
    #[schema(format = DateTime)]
    pub(crate) last_health_check: String,
}

/// Connections of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ConnectionsRecord {
    pub(crate) active: u64,
    pub(crate) idle: u64,
    pub(crate) max: u64,
}

/// The event log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BrokerRecord {
    /// `kafka` or `embedded`.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// Version; `unknown` if the log does not report one.
    pub(crate) version: String,
    pub(crate) status: HealthStatus,
    /// Number of brokers that answer.
    pub(crate) brokers: u64,
    /// Number of topics.
    pub(crate) topics: u64,
    /// Time of the check; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime)]
    pub(crate) last_health_check: Option<String>,
}

/// The caches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CacheStoreRecord {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) version: String,
    pub(crate) status: HealthStatus,
    /// Sum over all processes.
    pub(crate) memory: MemoryRecord,
    /// Time of the check; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime)]
    pub(crate) last_health_check: Option<String>,
}

/// Sizes, for example `12.3 MiB`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct MemoryRecord {
    pub(crate) used: String,
    /// Bound minus used.
    pub(crate) available: String,
}

/// External systems.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IntegrationsRecord {
    pub(crate) auth_provider: AuthProviderRecord,
    pub(crate) document_storage: DocumentStorageRecord,
}

/// The identity provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuthProviderRecord {
    /// Display name.
    pub(crate) name: String,
    pub(crate) status: HealthStatus,
    /// Issuer; empty if none is configured.
    pub(crate) endpoint: String,
    /// Time of the check; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime)]
    pub(crate) last_health_check: Option<String>,
}

/// The document storage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DocumentStorageRecord {
    /// Display name.
    pub(crate) name: String,
    pub(crate) status: HealthStatus,
    /// Address; empty if none is configured.
    pub(crate) endpoint: String,
    /// Number of buckets that the credentials can list.
    pub(crate) buckets: u64,
    /// Time of the check; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime)]
    pub(crate) last_health_check: Option<String>,
}

/// Summary of a scan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScanSummary {
    /// Duration, for example `1.234s`.
    pub(crate) scan_duration: String,
    /// Number of services that are new since the last stored scan.
    pub(crate) new_services_found: u64,
    /// Number of changed settings since the last stored scan.
    pub(crate) configuration_changes: u64,
    /// Number of issues.
    pub(crate) issues_detected: u64,
    /// Recommendations, most important first.
    pub(crate) recommendations: Vec<String>,
}

/// The part of a report that the history and the next scan read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ScanDigest {
    /// Number of services.
    pub(crate) total_services: u64,
    /// Number of healthy services.
    pub(crate) healthy_services: u64,
    /// Number of unhealthy services.
    pub(crate) unhealthy_services: u64,
    /// Summary of the scan.
    pub(crate) summary: ScanSummary,
    /// Unhealthy systems by key, with the time of the first of consecutive scans that found them unhealthy.
    pub(crate) unhealthy_since: BTreeMap<String, String>,
}

impl ScanReport {
    /// Counts the services by health.
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

    /// The keys of unhealthy services, infrastructure and integrations.
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

    /// A healthy service.
    pub(crate) fn service(name: &str) -> ServiceRecord {
        ServiceRecord {
            name: name.to_owned(),
            version: "1.0".to_owned(),
            status: HealthStatus::Healthy,
            endpoint: format!("http://{name}:80"),
            capabilities: vec!["a".to_owned()],
            last_health_check: Some(AT.to_owned()),
            error: None,
        }
    }

    /// A healthy platform of these services.
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
                    last_health_check: Some(text(AT)),
                },
                cache_store: CacheStoreRecord {
                    kind: text("in-memory"),
                    version: text("0.1.0"),
                    status,
                    memory: MemoryRecord {
                        used: text("1.0 MiB"),
                        available: text("9.0 MiB"),
                    },
                    last_health_check: Some(text(AT)),
                },
            },
            external_integrations: IntegrationsRecord {
                auth_provider: AuthProviderRecord {
                    name: text("Provider"),
                    status,
                    endpoint: text("https://id"),
                    last_health_check: Some(text(AT)),
                },
                document_storage: DocumentStorageRecord {
                    name: text("Storage"),
                    status,
                    endpoint: text("https://s3"),
                    buckets: 2,
                    last_health_check: Some(text(AT)),
                },
            },
            summary: ScanSummary::default(),
        };
        report.count();
        report
    }

    #[test]
    fn services_without_an_address_count_in_the_total_only() {
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
    fn a_report_round_trips_with_the_names_of_the_interface() {
        let mut found = report(&["svcEngine"]);
        let text = serde_json::to_string(&found).unwrap();
        assert!(!text.contains("\"error\""), "only for unhealthy services");
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
