//! Scanning the platform: what is there, how it is, what changed since the last time, what to do.
//!
//! The path of a scan: `scanner` asks everything side by side within one bound of time, `health_answer` reads what
//! services say, `comparison` looks what changed, `advice` says what to do; those three are pure. What a scan found
//! is kept in the table `scans`.

mod advice;
mod comparison;
mod flight;
pub(crate) mod health_answer;
pub(crate) mod history;
mod infrastructure;
mod probe;
mod provider;
mod report;
mod scanner;
mod settings;
pub(crate) mod storage;
mod tiers;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderName;
use axum::http::header::CACHE_CONTROL;
use schemas::credential::Role;
use schemas::fault::Fault;

use crate::access::Caller;
use crate::error::{FaultBody, Refusal};
use crate::params::Pairs;
use crate::state::QueryState;

pub(crate) use history::{__path_list, __path_one, list, one};
pub(crate) use report::ScanReport;
use scanner::Lost;
pub(crate) use scanner::Scanner;
pub use settings::{AuthProviderConfig, SERVICES_MAX, ScanConfig, ServiceConfig, StorageConfig};

/// What a scan found is true of one moment: nobody keeps it for another.
const NOT_KEPT: [(HeaderName, &str); 1] = [(CACHE_CONTROL, "no-store")];

/// Scan the platform
///
/// Asks every service, the infrastructure and the systems of others how they are, side by side and within a bound of
/// time, and compares with the last scan. What does not answer is `unhealthy` with a reason; what nobody set is
/// `unknown` and counts in `totalServices` only. Whoever asks while a scan is under way gets what that one finds.
#[utoipa::path(get, path = "/api/platform/discover", operation_id = "discover_platform", tag = "platform",
    responses(
        (status = 200, description = "What is there and how it is", body = ScanReport,
            headers(("Cache-Control" = String, description = "`no-store`"))),
        (status = 400, description = "An unknown parameter", body = FaultBody),
        (status = 401, description = "No token, or one that is not known", body = FaultBody),
        (status = 403, description = "Not a token with the role `operator` or `admin`", body = FaultBody),
        (status = 500, description = "The scan could not be done at all; `details` says why", body = FaultBody),
        (status = 503, description = "Credentials cannot be checked now", body = FaultBody, headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = [])))]
pub(crate) async fn discover(
    State(state): State<QueryState>,
    caller: Caller,
    pairs: Pairs,
) -> Result<([(HeaderName, &'static str); 1], Json<ScanReport>), Refusal> {
    let scanned_by = operator(&caller)?;
    pairs.only([])?;
    let report = state
        .scanner()
        .scan(&state, &scanned_by)
        .await
        .map_err(fault_of)?;
    Ok((NOT_KEPT, Json(ScanReport::clone(&report))))
}

/// Who the caller is, if they are an operator.
fn operator(caller: &Caller) -> Result<String, Fault> {
    match caller.covers(Role::Operator) {
        true => Ok(caller.who()),
        false => Err(Fault::forbidden(
            "this needs a token with the role `operator` or `admin`",
        )),
    }
}

/// A scan that could not be done at all.
fn fault_of(lost: Lost) -> Fault {
    tracing::error!(scan.lost = ?lost, "the platform could not be scanned");
    let message = "the platform could not be scanned";
    Fault::new(500, "scan_failed", message).with_details(lost.details().into())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_scan_that_cannot_be_done_is_a_500_whose_details_are_a_text() {
        for lost in [
            Lost::Ended,
            Lost::NoClient,
            Lost::TimedOut(Duration::from_secs(15)),
        ] {
            let body = serde_json::to_value(fault_of(lost)).unwrap();
            assert_eq!(
                (&body["status"], &body["error"]),
                (&500.into(), &"scan_failed".into())
            );
            assert!(body["message"].is_string() && body["details"].is_string());
        }
    }
}
