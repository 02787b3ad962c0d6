//! Probes the infrastructure: database, event log, caches and disk.

use std::collections::BTreeMap;

use schemas::control::CacheReport;
use schemas::timestamp::to_text;
use tokio::time::{Instant, timeout_at};

use super::ScanTargets;
use super::advice::size;
use super::report::{
    BrokerRecord, CacheStoreRecord, ConnectionsRecord, DatabaseRecord, HealthStatus,
    InfrastructureRecord, MemoryRecord, UNKNOWN,
};
use super::tiers;
use crate::clock::now_ms;
use crate::ports::infrastructure::{DiskReport, LogReport};

const LATE: &str = "it did not answer in time";

pub(crate) struct Infrastructure {
    pub(crate) record: InfrastructureRecord,
    /// Why systems are unhealthy, by key.
    pub(crate) problems: BTreeMap<&'static str, String>,
    pub(crate) log: Option<LogReport>,
    pub(crate) disk: Option<DiskReport>,
    pub(crate) caches: Vec<CacheReport>,
}

pub(crate) async fn probe(targets: &ScanTargets, until: Instant) -> Infrastructure {
    let (database, (broker, log), disk) = tokio::join!(
        database(targets, until),
        broker(targets, until),
        disk(targets, until)
    );
    let known = targets
        .processes
        .get()
        .map(|processes| processes.processes());
    let caches = tiers::caches(known.as_deref().unwrap_or_default());
    let cache_store = cache_store(known.as_ref().map(|_| &caches[..]));
    let mut problems = BTreeMap::new();
    problems.extend(database.1.map(|why| ("database", why)));
    problems.extend(broker.1.map(|why| ("messageBroker", why)));
    Infrastructure {
        record: InfrastructureRecord {
            database: database.0,
            message_broker: broker.0,
            cache_store,
        },
        problems,
        log,
        disk,
        caches,
    }
}

async fn database(targets: &ScanTargets, until: Instant) -> (DatabaseRecord, Option<String>) {
    let store = &targets.store;
    let asked = timeout_at(until, store.server_version()).await;
    let problem = match &asked {
        Ok(Ok(_)) => None,
        Ok(Err(error)) => {
            tracing::warn!(error.message = %error, "ClickHouse did not report its version");
            Some(match error.is_retryable() {
                true => "it does not answer".to_owned(),
                false => "it rejected the query".to_owned(),
            })
        }
        Err(_) => Some(LATE.to_owned()),
    };
    let pool = store.connections();
    let record = DatabaseRecord {
        kind: "ClickHouse".to_owned(),
        status: match problem {
            None => HealthStatus::Healthy,
            Some(_) => HealthStatus::Unhealthy,
        },
        version: match asked {
            Ok(Ok(version)) => version,
            _ => UNKNOWN.to_owned(),
        },
        connections: ConnectionsRecord {
            active: pool.active as u64,
            idle: pool.idle as u64,
            max: pool.max as u64,
        },
        last_health_check: to_text(now_ms()),
    };
    (record, problem)
}

async fn disk(targets: &ScanTargets, until: Instant) -> Option<DiskReport> {
    let disk = timeout_at(until, targets.infrastructure.get()?.disk()).await;
    disk.unwrap_or_else(|_| {
        tracing::warn!("the disk of the data folder did not answer in time");
        None
    })
}

type Broker = (BrokerRecord, Option<String>);

async fn broker(targets: &ScanTargets, until: Instant) -> (Broker, Option<LogReport>) {
    let Some(infrastructure) = targets.infrastructure.get() else {
        return (none(UNKNOWN, HealthStatus::Unknown, None), None);
    };
    let asked = timeout_at(until, infrastructure.log()).await;
    match asked.unwrap_or_else(|_| Err(LATE.to_owned())) {
        Ok(log) => {
            let record = BrokerRecord {
                kind: log.kind.to_owned(),
                version: log.version.clone(),
                status: HealthStatus::Healthy,
                brokers: log.brokers,
                topics: log.topics,
                last_health_check: Some(to_text(now_ms())),
            };
            ((record, None), Some(log))
        }
        Err(why) => {
            let kind = infrastructure.log_kind();
            (none(kind, HealthStatus::Unhealthy, Some(why)), None)
        }
    }
}

/// A log of which only the kind is known.
fn none(kind: &str, status: HealthStatus, problem: Option<String>) -> Broker {
    let record = BrokerRecord {
        kind: kind.to_owned(),
        version: UNKNOWN.to_owned(),
        status,
        brokers: 0,
        topics: 0,
        last_health_check: (status != HealthStatus::Unknown).then(|| to_text(now_ms())),
    };
    (record, problem)
}

/// The caches are in the memory of Spindle's processes.
fn cache_store(caches: Option<&[CacheReport]>) -> CacheStoreRecord {
    let sum = |of: fn(&CacheReport) -> u64| {
        let all = caches.unwrap_or_default().iter().map(of);
        all.fold(0_u64, u64::saturating_add)
    };
    let (used, max) = (sum(|cache| cache.used_bytes), sum(|cache| cache.max_bytes));
    CacheStoreRecord {
        kind: "in-memory".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        status: match caches {
            Some(_) => HealthStatus::Healthy,
            None => HealthStatus::Unknown,
        },
        memory: MemoryRecord {
            used: size(used),
            available: size(max.saturating_sub(used)),
        },
        last_health_check: caches.map(|_| to_text(now_ms())),
    }
}
