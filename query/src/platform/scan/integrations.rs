//! Probes the external systems: identity provider and document storage.

use schemas::timestamp::to_text;

use super::probe::Prober;
use super::report::{AuthProviderRecord, DocumentStorageRecord, HealthStatus, status_of};
use super::scanner::Deadlines;
use super::settings::{ScanConfig, without_secrets};
use super::{provider, storage};
use crate::clock::now_ms;

/// A probed system, and why it is unhealthy.
pub(super) struct Probed<R> {
    pub(super) record: R,
    pub(super) problem: Option<String>,
}

pub(super) async fn auth_provider(
    config: &ScanConfig,
    deadlines: &Deadlines,
) -> Probed<AuthProviderRecord> {
    let Some(provider) = &config.auth_provider else {
        let record = AuthProviderRecord {
            name: "Identity provider".to_owned(),
            status: HealthStatus::Unknown,
            endpoint: String::new(),
            last_health_check: None,
        };
        return Probed {
            record,
            problem: None,
        };
    };
    let probed = deadlines.in_time(provider::probe(provider, config.probe_timeout));
    let problem = probed.await.and_then(|probed| probed).err();
    let endpoint = provider.issuer.parse();
    let record = AuthProviderRecord {
        name: provider.name.clone(),
        status: status_of(&problem),
        endpoint: endpoint.map_or_else(|_| String::new(), |url| without_secrets(&url)),
        last_health_check: Some(to_text(now_ms())),
    };
    Probed { record, problem }
}

pub(super) async fn document_storage(
    config: &ScanConfig,
    prober: &Prober,
    deadlines: &Deadlines,
) -> Probed<DocumentStorageRecord> {
    let Some(storage) = &config.document_storage else {
        let record = DocumentStorageRecord {
            name: "Document storage".to_owned(),
            status: HealthStatus::Unknown,
            endpoint: String::new(),
            buckets: 0,
            last_health_check: None,
        };
        return Probed {
            record,
            problem: None,
        };
    };
    let buckets = deadlines.in_time(storage::buckets(prober, storage));
    let (buckets, problem) = match buckets.await.and_then(|buckets| buckets) {
        Ok(buckets) => (buckets, None),
        Err(problem) => (0, Some(problem)),
    };
    let record = DocumentStorageRecord {
        name: storage.name.clone(),
        status: status_of(&problem),
        endpoint: without_secrets(&storage.endpoint),
        buckets,
        last_health_check: Some(to_text(now_ms())),
    };
    Probed { record, problem }
}
