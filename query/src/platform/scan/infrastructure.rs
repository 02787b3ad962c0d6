//! What the services stand on: the tables, the log, the caches.

use std::collections::BTreeMap;

use schemas::control::CacheReport;
use schemas::timestamp::to_text;
use tokio::time::{Instant, timeout_at};

use super::advice::size;
use super::report::{
    BrokerRecord, CacheStoreRecord, ConnectionsRecord, DatabaseRecord, HealthStatus,
    InfrastructureRecord, MemoryRecord, UNKNOWN,
};
use super::tiers;
use crate::platform::{DiskReport, LogReport};
use crate::state::{QueryState, now_ms};

/// What is told of something that has not answered when the scan has to end.
const LATE: &str = "it did not answer in time";

/// What was found.
pub(crate) struct Infrastructure {
    pub(crate) record: InfrastructureRecord,
    /// Why something is unhealthy, by key.
    pub(crate) problems: BTreeMap<&'static str, String>,
    pub(crate) log: Option<LogReport>,
    pub(crate) disk: Option<DiskReport>,
    pub(crate) caches: Vec<CacheReport>,
}

/// Asks all of it.
pub(crate) async fn ask(state: &QueryState, until: Instant) -> Infrastructure {
    let (database, (broker, log), disk) = tokio::join!(
        database(state, until),
        broker(state, until),
        disk(state, until)
    );
    let heard = state
        .processes()
        .ok()
        .map(|processes| processes.processes());
    let caches = tiers::caches(heard.as_deref().unwrap_or_default());
    let cache_store = cache_store(heard.as_ref().map(|_| &caches[..]));
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

async fn database(state: &QueryState, until: Instant) -> (DatabaseRecord, Option<String>) {
    let store = state.store();
    let asked = timeout_at(until, store.server_version()).await;
    let problem = match &asked {
        Ok(Ok(_)) => None,
        Ok(Err(error)) => {
            tracing::warn!(error.message = %error, "ClickHouse does not say its version");
            Some(match error.is_retryable() {
                true => "it does not answer".to_owned(),
                false => "it refuses the question".to_owned(),
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

/// The disk, if there is one and it answers.
async fn disk(state: &QueryState, until: Instant) -> Option<DiskReport> {
    let disk = timeout_at(until, state.infrastructure()?.disk()).await;
    disk.unwrap_or_else(|_| {
        tracing::warn!("the disk of the data folder does not say how full it is");
        None
    })
}

type Broker = (BrokerRecord, Option<String>);

async fn broker(state: &QueryState, until: Instant) -> (Broker, Option<LogReport>) {
    let Some(beside) = state.infrastructure() else {
        return (none(UNKNOWN, HealthStatus::Unknown, None), None);
    };
    let asked = timeout_at(until, beside.log()).await;
    match asked.unwrap_or_else(|_| Err(LATE.to_owned())) {
        Ok(log) => {
            let record = BrokerRecord {
                kind: log.kind.to_owned(),
                version: log.version.clone(),
                status: HealthStatus::Healthy,
                brokers: log.brokers,
                topics: log.topics,
                last_health_check: to_text(now_ms()),
            };
            ((record, None), Some(log))
        }
        Err(why) => {
            let kind = beside.log_kind();
            (none(kind, HealthStatus::Unhealthy, Some(why)), None)
        }
    }
}

/// A log of which nothing is known but its kind.
fn none(kind: &str, status: HealthStatus, problem: Option<String>) -> Broker {
    let record = BrokerRecord {
        kind: kind.to_owned(),
        version: UNKNOWN.to_owned(),
        status,
        brokers: 0,
        topics: 0,
        last_health_check: to_text(now_ms()),
    };
    (record, problem)
}

/// The caches are in the memory of our own processes: whoever is heard has them.
fn cache_store(caches: Option<&[CacheReport]>) -> CacheStoreRecord {
    let sum = |of: fn(&CacheReport) -> u64| {
        let all = caches.unwrap_or_default().iter().map(of);
        all.fold(0_u64, u64::saturating_add)
    };
    let (used, most) = (sum(|cache| cache.used_bytes), sum(|cache| cache.max_bytes));
    CacheStoreRecord {
        kind: "in-memory".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        status: match caches {
            Some(_) => HealthStatus::Healthy,
            None => HealthStatus::Unknown,
        },
        memory: MemoryRecord {
            used: size(used),
            available: size(most.saturating_sub(used)),
        },
        last_health_check: to_text(now_ms()),
    }
}
