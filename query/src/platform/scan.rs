//! Platform scans: the health of all services and systems, changes since the last scan, and recommendations.
//!
//! The path of a scan: `scanner` probes everything concurrently within one time limit, `health_response` assesses
//! responses, `comparison` finds changes, `advice` makes recommendations; the last three are pure. Scans are stored in the
//! table `scans`.

mod advice;
mod comparison;
mod flight;
pub(crate) mod health_response;
pub(crate) mod history;
mod infrastructure;
mod integrations;
mod probe;
mod provider;
mod report;
mod scanner;
mod settings;
pub(crate) mod storage;
mod tiers;

use api::{ErrorResponse, errors};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderName;
use schemas::api_error::{ApiError, ErrorCode};
use store::Store;

use crate::access::Caller;
use crate::params::Pairs;
use crate::ports::Port;
use crate::ports::infrastructure::Infrastructure;
use crate::ports::processes::Processes;
use crate::views::NO_STORE;

pub(crate) use history::{__path_list, __path_one, list, one};
pub(crate) use report::ScanReport;
use scanner::ScanFailure;
pub(crate) use scanner::Scanner;
pub use settings::{AuthProviderConfig, SERVICES_MAX, ScanConfig, ServiceConfig, StorageConfig};

#[derive(Clone)]
pub(crate) struct ScanState {
    pub(crate) scanner: Arc<Scanner>,
    pub(crate) targets: ScanTargets,
}

/// Targets of a scan beside the configured services.
#[derive(Clone)]
pub(crate) struct ScanTargets {
    pub(crate) store: Store,
    pub(crate) infrastructure: Port<dyn Infrastructure>,
    pub(crate) processes: Port<dyn Processes>,
}

/// Scan the platform
///
/// Checks the health of all services, the infrastructure and external systems concurrently within a time limit, and
/// compares them with the last scan. A system that does not answer is `unhealthy`, with a reason; one without a
/// configured address is `unknown` and counts in `totalServices` only. A request during a scan gets its result.
#[utoipa::path(get, path = "/api/platform/discover", operation_id = "discover_platform", tag = "platform",
    responses(
        (status = 200, description = "The report", body = ScanReport,
            headers(("Cache-Control" = String, description = "`no-store`"))),
        errors::AnyOf<(errors::Common, errors::Scan)>,
    ),
    security(("bearer" = [])))]
pub(crate) async fn discover(
    State(ScanState { scanner, targets }): State<ScanState>,
    caller: Caller,
    pairs: Pairs,
) -> Result<([(HeaderName, &'static str); 1], Json<ScanReport>), ErrorResponse> {
    caller.operates()?;
    pairs.only([])?;
    let report = scanner
        .scan(&targets, &caller.audit_name())
        .await
        .map_err(scan_error)?;
    Ok((NO_STORE, Json(ScanReport::clone(&report))))
}

fn scan_error(failure: ScanFailure) -> ApiError {
    tracing::error!(scan.failure = ?failure, "the platform could not be scanned");
    let message = "the platform could not be scanned";
    ApiError::new(ErrorCode::ScanFailed, message).with_details(failure.details().into())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_failed_scan_is_a_500_whose_details_are_a_string() {
        for failure in [
            ScanFailure::Ended,
            ScanFailure::NoClient,
            ScanFailure::TimedOut(Duration::from_secs(15)),
        ] {
            let body = serde_json::to_value(scan_error(failure)).unwrap();
            assert_eq!(
                (&body["status"], &body["error"]),
                (&500.into(), &"scan_failed".into())
            );
            assert!(body["message"].is_string() && body["details"].is_string());
        }
    }
}
