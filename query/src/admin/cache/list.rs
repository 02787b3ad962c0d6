//! `GET /api/internal/cache`: the caches of all processes.

use api::{ErrorResponse, errors};
use axum::Json;
use axum::extract::State;
use schemas::control::CacheReport;
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::Caller;
use crate::params::Pairs;
use crate::ports::Port;
use crate::ports::processes::{CORE_CACHE, Processes};
use schemas::control::KnownProcess;

const DESCRIPTION: &str = "Everything that processes cache of tables and other systems: keys, tokens, projects, \
    prices, builds, keys of the identity provider, and recently used runs";

/// The caches.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CacheList {
    /// By name.
    data: Vec<NamedCache>,
}

/// A cache that can be cleared.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NamedCache {
    #[schema(example = "svc:core:cache")]
    name: &'static str,
    description: &'static str,
    #[serde(flatten)]
    figures: Figures,
    /// The caches of each process, which are cleared together. A process without heartbeats is listed for some minutes
    /// and does not count in the sums.
    parts: Vec<Part>,
}

/// A cache of one process.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Part {
    /// Unique for each start of the process.
    process: String,
    /// `serve`, `ingest`, `processor` or `query`.
    role: String,
    /// Address on which the process listens.
    endpoint: String,
    /// Age of the heartbeat in milliseconds; 0 for the process that answers.
    silent_ms: u64,
    /// `credentials`, `prices`, `hot_runs`, `builds` or `identity_keys`.
    name: String,
    #[serde(flatten)]
    figures: Figures,
}

/// Size and use of a cache.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct Figures {
    entries: u64,
    /// Hits since the process started.
    hits: u64,
    /// Misses since the process started.
    misses: u64,
    /// Hits divided by look-ups; null before the first look-up.
    hit_rate: Option<f64>,
    /// Approximate size in bytes.
    used_bytes: u64,
    /// Largest size in bytes.
    max_bytes: u64,
}

impl Figures {
    /// Sums of several caches.
    fn sum<'a>(reports: impl Iterator<Item = &'a CacheReport> + Clone) -> Self {
        let total = |of: fn(&CacheReport) -> u64| {
            let values = reports.clone().map(of);
            values.fold(0, u64::saturating_add)
        };
        let (hits, misses) = (total(|report| report.hits), total(|report| report.misses));
        let lookups = hits.saturating_add(misses);
        // Four digits: more would be noise.
        let rate = (hits as f64 / lookups as f64 * 1e4).round() / 1e4;
        Self {
            entries: total(|report| report.entries),
            hits,
            misses,
            hit_rate: (lookups > 0).then_some(rate),
            used_bytes: total(|report| report.used_bytes),
            max_bytes: total(|report| report.max_bytes),
        }
    }
}

/// List caches
///
/// As of the last heartbeat of each process; heartbeats are sent every two seconds.
#[utoipa::path(get, path = "/api/internal/cache", operation_id = "list_caches", tag = "administration",
    responses(
        (status = 200, description = "The caches with their parts", body = CacheList),
        errors::Checked,
    ),
    security(("bearer" = [])))]
pub(crate) async fn list(
    State(processes): State<Port<dyn Processes>>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<CacheList>, ErrorResponse> {
    caller.administers_all()?;
    pairs.only([])?;
    Ok(Json(listed(&processes.required()?.processes())))
}

fn listed(processes: &[KnownProcess]) -> CacheList {
    // A process without heartbeats may have ended; its last state is among the parts.
    let there = processes.iter().filter(|known| known.is_alive());
    let reports = there.flat_map(|known| &known.heartbeat.caches);
    let parts = processes.iter().flat_map(|known| {
        let heartbeat = &known.heartbeat;
        heartbeat.caches.iter().map(|report| Part {
            process: heartbeat.process.clone(),
            role: heartbeat.role.clone(),
            endpoint: heartbeat.endpoint.clone(),
            silent_ms: known.silent_ms,
            name: report.name.clone(),
            figures: Figures::sum(std::iter::once(report)),
        })
    });
    let core = NamedCache {
        name: CORE_CACHE,
        description: DESCRIPTION,
        figures: Figures::sum(reports),
        parts: parts.collect(),
    };
    CacheList { data: vec![core] }
}

#[cfg(test)]
mod tests {
    use schemas::control::Heartbeat;
    use serde_json::json;

    use super::*;
    use schemas::control::ALIVE_WITHIN_MS;

    fn known(process: &str, silent_ms: u64, caches: &[(&str, u64, u64)]) -> KnownProcess {
        let report = |(name, hits, misses): &(&str, u64, u64)| CacheReport {
            name: (*name).to_owned(),
            entries: 1,
            used_bytes: 10,
            max_bytes: 100,
            hits: *hits,
            misses: *misses,
        };
        let heartbeat = Heartbeat {
            process: process.to_owned(),
            role: "query".to_owned(),
            version: "1".to_owned(),
            endpoint: "http://a".to_owned(),
            caches: caches.iter().map(report).collect(),
            ..Heartbeat::default()
        };
        KnownProcess {
            heartbeat,
            silent_ms,
        }
    }

    #[test]
    fn figures_are_summed_and_a_hit_rate_needs_a_look_up() {
        let processes = [
            known("p", 0, &[("credentials", 2, 1), ("prices", 0, 0)]),
            known("q", 7, &[("credentials", 0, 3)]),
            known("gone", ALIVE_WITHIN_MS + 1, &[("credentials", 9, 9)]),
        ];
        let list = serde_json::to_value(listed(&processes)).unwrap();
        let core = &list["data"][0];
        assert_eq!(
            (&core["name"], &core["entries"], &core["used_bytes"]),
            (&json!("svc:core:cache"), &json!(3), &json!(30))
        );
        assert_eq!(
            (&core["hits"], &core["misses"], &core["hit_rate"]),
            (&json!(2), &json!(4), &json!(0.3333))
        );
        let parts = core["parts"].as_array().unwrap();
        let rates: Vec<_> = parts.iter().map(|part| &part["hit_rate"]).collect();
        let expected = [&json!(0.6667), &json!(null), &json!(0.0), &json!(0.5)];
        assert_eq!(rates, expected);
        assert_eq!(
            parts[2],
            json!({
                "process": "q", "role": "query", "endpoint": "http://a", "silent_ms": 7, "name": "credentials",
                "entries": 1, "hits": 0, "misses": 3, "hit_rate": 0.0, "used_bytes": 10, "max_bytes": 100
            })
        );
    }
}
