//! The scans before: a list and one of them.

use axum::Json;
use axum::extract::State;
use schemas::fault::Fault;
use schemas::filter::invalid_parameter;
use schemas::timestamp::to_text;
use serde::Serialize;
use store::scans::{SCANS_LISTED_MAX, Scan, ScanPlace};
use utoipa::ToSchema;
use uuid::Uuid;

use super::operator;
use super::report::{ScanDigest, ScanReport};
use crate::access::Caller;
use crate::error::{FaultBody, Refusal};
use crate::params::{Pairs, PathId};
use crate::state::QueryState;

/// Scans in a page that asks for no other number.
const SCANS_LISTED: usize = 20;

/// A scan in a list.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScanEntry {
    /// Its id.
    id: String,
    /// When it was over.
    #[schema(format = DateTime)]
    scan_timestamp: String,
    /// Who asked for it.
    scanned_by: String,
    #[serde(flatten)]
    digest: ScanDigest,
}

/// Scans.
#[derive(Serialize, ToSchema)]
pub(crate) struct ScanList {
    /// Newest first.
    data: Vec<ScanEntry>,
    /// Where the next page begins; null at the end.
    next_cursor: Option<String>,
    /// Whether there is another page.
    has_more: bool,
}

/// A scan with its report.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScanFound {
    /// Its id.
    id: String,
    /// Who asked for it.
    scanned_by: String,
    /// The report, as it was answered.
    report: ScanReport,
}

/// List scans of the platform
///
/// They are kept for 90 days.
#[utoipa::path(get, path = "/api/platform/scan", operation_id = "list_scans", tag = "platform",
    params(
        ("limit" = Option<u32>, Query, description = "Scans in a page, 20 unless given", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before", pattern = "^[0-9]{1,14}_[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"),
    ),
    responses(
        (status = 200, description = "The newest first", body = ScanList),
        (status = 400, description = "An unknown parameter, or a bad value", body = FaultBody),
        (status = 401, description = "No token, or one that is not known", body = FaultBody),
        (status = 403, description = "Not a token with the role `operator` or `admin`", body = FaultBody),
        (status = 503, description = "The database is away", body = FaultBody, headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = [])))]
pub(crate) async fn list(
    State(state): State<QueryState>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<ScanList>, Refusal> {
    operator(&caller)?;
    let [limit, cursor] = pairs.only(["limit", "cursor"])?;
    let limit = limit.map_or(Ok(SCANS_LISTED), read_limit)?;
    let before = cursor.map(read_cursor).transpose()?;
    // One more than is shown says whether there is another page.
    let mut scans = state.store().scans(before.as_ref(), limit + 1).await?;
    let has_more = scans.len() > limit;
    scans.truncate(limit);
    let last = scans.last().filter(|_| has_more);
    let next_cursor = last.map(|scan| format!("{}_{}", scan.scanned_at, scan.scan_id));
    Ok(Json(ScanList {
        data: scans.into_iter().map(entry).collect(),
        next_cursor,
        has_more,
    }))
}

/// One scan of the platform
#[utoipa::path(get, path = "/api/platform/scan/{id}", operation_id = "get_scan", tag = "platform",
    params(("id" = String, Path, description = "Identifier of the scan")),
    responses(
        (status = 200, description = "The scan with its report", body = ScanFound),
        (status = 400, description = "An unknown parameter", body = FaultBody),
        (status = 401, description = "No token, or one that is not known", body = FaultBody),
        (status = 403, description = "Not a token with the role `operator` or `admin`", body = FaultBody),
        (status = 404, description = "There is no such scan (any more)", body = FaultBody),
        (status = 503, description = "The database is away", body = FaultBody, headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = [])))]
pub(crate) async fn one(
    State(state): State<QueryState>,
    caller: Caller,
    PathId(id): PathId,
    pairs: Pairs,
) -> Result<Json<ScanFound>, Refusal> {
    operator(&caller)?;
    pairs.only([])?;
    let scan = match id.parse::<Uuid>() {
        Ok(id) => state.store().scan(&id.to_string()).await?,
        Err(_) => None,
    };
    let scan = scan.ok_or_else(|| Fault::not_found(format!("there is no scan `{id}`")))?;
    let report = serde_json::from_str(&scan.report).map_err(|error| {
        tracing::error!(error.message = %error, scan.id = scan.scan_id, "a stored scan cannot be read");
        Fault::internal()
    })?;
    Ok(Json(ScanFound {
        id: scan.scan_id,
        scanned_by: scan.scanned_by,
        report,
    }))
}

fn entry(scan: Scan) -> ScanEntry {
    ScanEntry {
        id: scan.scan_id,
        scan_timestamp: to_text(scan.scanned_at),
        scanned_by: scan.scanned_by,
        // One of another version of this program shows what is known of it.
        digest: serde_json::from_str(&scan.digest).unwrap_or_default(),
    }
}

fn read_limit(text: &str) -> Result<usize, Fault> {
    let limit = text.parse().ok();
    limit
        .filter(|limit| (1..=SCANS_LISTED_MAX).contains(limit))
        .ok_or_else(|| {
            let allowed = format!("a whole number from 1 to {SCANS_LISTED_MAX}");
            invalid_parameter("limit", text, &allowed)
        })
}

pub(crate) fn read_cursor(text: &str) -> Result<ScanPlace, Fault> {
    let read = || {
        let (at, id) = text.split_once('_')?;
        let is_time = (1..=14).contains(&at.len()) && at.bytes().all(|byte| byte.is_ascii_digit());
        Some(ScanPlace {
            scanned_at: is_time.then(|| at.parse().ok()).flatten()?,
            scan_id: id.parse::<Uuid>().ok()?.to_string(),
        })
    };
    read().ok_or_else(|| invalid_parameter("cursor", text, "`next_cursor` of a page"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_and_limits_are_read_or_refused() {
        let id = Uuid::new_v4().to_string();
        let place = read_cursor(&format!("1795168800000_{id}")).unwrap();
        assert_eq!(
            (place.scanned_at, place.scan_id),
            (1_795_168_800_000, id.clone())
        );
        for bad in [
            "",
            "1",
            "_",
            "x_y",
            &format!("-1_{id}"),
            &format!("+1_{id}"),
            &id,
        ] {
            assert!(read_cursor(bad).is_err(), "{bad}");
        }
        assert_eq!(read_limit("100"), Ok(100));
        for bad in ["0", "101", "x", "-1"] {
            assert!(read_limit(bad).is_err(), "{bad}");
        }
    }
}
