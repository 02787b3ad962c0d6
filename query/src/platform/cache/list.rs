//! What the caches hold, in every process.

use axum::Json;
use axum::extract::State;
use schemas::control::CacheReport;
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::Caller;
use crate::error::{FaultBody, Refusal};
use crate::params::Pairs;
use crate::platform::{CORE_CACHE, Heard};
use crate::state::QueryState;

const DESCRIPTION: &str = "What the processes keep in memory of the tables and of others: keys, tokens, projects, \
    prices, builds, keys of the identity provider, and runs that were touched lately";

/// Caches.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CacheList {
    /// By name.
    data: Vec<NamedCache>,
}

/// A cache by the name it is cleared by.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NamedCache {
    /// The name.
    #[schema(example = "svc:core:cache")]
    name: &'static str,
    /// What it holds.
    description: &'static str,
    #[serde(flatten)]
    figures: Figures,
    /// The caches of each process, which are cleared together. Those of a process that fell silent stay for some
    /// minutes and do not count in the sums.
    parts: Vec<Part>,
}

/// One cache of one process.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Part {
    /// Names the process, anew at each start.
    process: String,
    /// `serve`, `ingest`, `processor` or `query`.
    role: String,
    /// Where the process listens.
    endpoint: String,
    /// How long ago the process said this, milliseconds; 0 for the one that was asked.
    silent_ms: u64,
    /// `credentials`, `prices`, `hot_runs`, `builds` or `identity_keys`.
    name: String,
    #[serde(flatten)]
    figures: Figures,
}

/// How a cache is doing.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct Figures {
    /// Entries.
    entries: u64,
    /// Look-ups that found something since the process started.
    hits: u64,
    /// Look-ups that did not.
    misses: u64,
    /// Hits of all look-ups, 0 to 1; null before the first.
    hit_rate: Option<f64>,
    /// Bytes it takes, nearly.
    used_bytes: u64,
    /// Bytes it may take.
    max_bytes: u64,
}

impl Figures {
    /// Of several caches together.
    fn of<'a>(reports: impl Iterator<Item = &'a CacheReport> + Clone) -> Self {
        let sum = |of: fn(&CacheReport) -> u64| {
            let values = reports.clone().map(of);
            values.fold(0, u64::saturating_add)
        };
        let (hits, misses) = (sum(|report| report.hits), sum(|report| report.misses));
        let lookups = hits.saturating_add(misses);
        // To four digits: more would only be noise.
        let rate = (hits as f64 / lookups as f64 * 1e4).round() / 1e4;
        Self {
            entries: sum(|report| report.entries),
            hits,
            misses,
            hit_rate: (lookups > 0).then_some(rate),
            used_bytes: sum(|report| report.used_bytes),
            max_bytes: sum(|report| report.max_bytes),
        }
    }
}

/// List caches
///
/// What each process said last; every process says it every two seconds.
#[utoipa::path(get, path = "/api/internal/cache", operation_id = "list_caches", tag = "administration",
    responses(
        (status = 200, description = "The caches that can be cleared, with their parts", body = CacheList),
        (status = 400, description = "An unknown parameter", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "Not a token with the role `admin`, or one limited to projects", body = FaultBody),
        (status = 503, description = "The credential cannot be checked now", body = FaultBody, headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = [])))]
pub(crate) async fn list(
    State(state): State<QueryState>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<CacheList>, Refusal> {
    caller.administers_all()?;
    pairs.only([])?;
    Ok(Json(listed(&state.processes()?.processes())))
}

fn listed(processes: &[Heard]) -> CacheList {
    // One that fell silent may hold nothing any more; what it held last is among the parts.
    let there = processes.iter().filter(|heard| heard.is_there());
    let reports = there.flat_map(|heard| &heard.present.caches);
    let parts = processes.iter().flat_map(|heard| {
        let present = &heard.present;
        present.caches.iter().map(|report| Part {
            process: present.process.clone(),
            role: present.role.clone(),
            endpoint: present.endpoint.clone(),
            silent_ms: heard.silent_ms,
            name: report.name.clone(),
            figures: Figures::of(std::iter::once(report)),
        })
    });
    let core = NamedCache {
        name: CORE_CACHE,
        description: DESCRIPTION,
        figures: Figures::of(reports),
        parts: parts.collect(),
    };
    CacheList { data: vec![core] }
}

#[cfg(test)]
mod tests {
    use schemas::control::{EventCounts, Present};
    use serde_json::json;

    use super::*;
    use crate::platform::HEARD_WITHIN_MS;

    fn heard(process: &str, silent_ms: u64, caches: &[(&str, u64, u64)]) -> Heard {
        let report = |(name, hits, misses): &(&str, u64, u64)| CacheReport {
            name: (*name).to_owned(),
            entries: 1,
            used_bytes: 10,
            max_bytes: 100,
            hits: *hits,
            misses: *misses,
        };
        let present = Present {
            process: process.to_owned(),
            role: "query".to_owned(),
            version: "1".to_owned(),
            endpoint: "http://a".to_owned(),
            missing: Vec::new(),
            caches: caches.iter().map(report).collect(),
            cleared: Vec::new(),
            leaves: false,
            events: EventCounts::default(),
        };
        Heard { present, silent_ms }
    }

    #[test]
    fn figures_are_summed_up_and_a_rate_needs_a_look_up() {
        let processes = [
            heard("p", 0, &[("credentials", 2, 1), ("prices", 0, 0)]),
            heard("q", 7, &[("credentials", 0, 3)]),
            heard("gone", HEARD_WITHIN_MS + 1, &[("credentials", 9, 9)]),
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
