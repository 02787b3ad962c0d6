//! `/api/platform/scan`: stored scans.

use api::{ErrorResponse, errors};
use axum::Json;
use axum::extract::State;
use schemas::api_error::ApiError;
use schemas::cursor::{self, Position};
use schemas::timestamp::{UnixMs, to_text};
use serde::{Deserialize, Serialize};
use store::Store;
use store::platform::scans::{SCANS_LISTED_MAX, Scan, ScanPlace};
use utoipa::ToSchema;
use uuid::Uuid;

use super::report::{ScanDigest, ScanReport};
use crate::access::Caller;
use crate::params::{IdPath, Limit, Pairs, Text, query_params};

query_params! {
    pub(crate) struct ScanListParams {
        /// Largest page size, default 20
        limit: Limit<SCANS_LISTED_MAX>,
        /// `next_cursor` of the previous page
        cursor: Text,
    }
}

/// Default page size.
const SCANS_LISTED: usize = 20;

/// A scan in a list.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScanEntry {
    id: String,
    /// When it was completed.
    #[schema(format = DateTime)]
    scan_timestamp: String,
    /// Who requested it.
    scanned_by: String,
    #[serde(flatten)]
    digest: ScanDigest,
}

/// A page of scans.
#[derive(Serialize, ToSchema)]
pub(crate) struct ScanList {
    /// Newest first.
    data: Vec<ScanEntry>,
    /// `cursor` of the next page; null on the last.
    next_cursor: Option<String>,
    /// Whether another page exists.
    has_more: bool,
}

/// Position in the list of scans.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ScanPosition {
    /// When the last scan was completed.
    pub(crate) scanned_at_ms: UnixMs,
    pub(crate) scan_id: String,
}

impl Position for ScanPosition {
    const LIST: u8 = 4;
}

/// A stored scan.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScanFound {
    id: String,
    /// Who requested it.
    scanned_by: String,
    report: ScanReport,
}

/// List scans of the platform
///
/// Scans are stored for 90 days.
#[utoipa::path(get, path = "/api/platform/scan", operation_id = "list_scans", tag = "platform",
    params(ScanListParams),
    responses(
        (status = 200, description = "Newest first", body = ScanList),
        errors::AnyOf<(errors::Common, errors::Paged)>,
    ),
    security(("bearer" = [])))]
pub(crate) async fn list(
    State(store): State<Store>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<ScanList>, ErrorResponse> {
    caller.operates()?;
    let ScanListParams { limit, cursor } = ScanListParams::read(&pairs)?;
    let limit = limit.unwrap_or(SCANS_LISTED);
    let fingerprint = cursor::fingerprint(&[]);
    let before = cursor.map(|text| cursor::decode::<ScanPosition>(&text, fingerprint));
    let before = before.transpose()?.map(|position| ScanPlace {
        scanned_at: position.scanned_at_ms,
        scan_id: position.scan_id,
    });
    // One more determines whether another page exists.
    let mut scans = store.scans(before.as_ref(), limit + 1).await?;
    let has_more = scans.len() > limit;
    scans.truncate(limit);
    let last = scans.last().filter(|_| has_more);
    let next_cursor = last.map(|scan| {
        let position = ScanPosition {
            scanned_at_ms: scan.scanned_at,
            scan_id: scan.scan_id.clone(),
        };
        cursor::encode(&position, fingerprint)
    });
    Ok(Json(ScanList {
        data: scans.into_iter().map(entry).collect(),
        next_cursor,
        has_more,
    }))
}

/// Get a scan of the platform
#[utoipa::path(get, path = "/api/platform/scan/{id}", operation_id = "get_scan", tag = "platform",
    params(IdPath),
    responses(
        (status = 200, description = "The scan with its report", body = ScanFound),
        errors::AnyOf<(errors::Common, errors::NotFound)>,
    ),
    security(("bearer" = [])))]
pub(crate) async fn one(
    State(store): State<Store>,
    caller: Caller,
    IdPath { id }: IdPath,
    pairs: Pairs,
) -> Result<Json<ScanFound>, ErrorResponse> {
    caller.operates()?;
    pairs.only([])?;
    let scan = match id.parse::<Uuid>() {
        Ok(id) => store.scan(&id.to_string()).await?,
        Err(_) => None,
    };
    let scan = scan.ok_or_else(|| ApiError::not_found(format!("scan `{id}` not found")))?;
    let report = serde_json::from_str(&scan.report).map_err(|error| {
        tracing::error!(error.message = %error, scan.id = scan.scan_id, "a stored scan cannot be read");
        ApiError::internal()
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
        // A scan of another version may have other fields.
        digest: serde_json::from_str(&scan.digest).unwrap_or_default(),
    }
}
