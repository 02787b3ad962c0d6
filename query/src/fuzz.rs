//! Private parsers of this tier, public for the fuzz targets only.

use std::time::{Duration, Instant};

use api::AuthHeader;
use axum::http::HeaderMap;
use schemas::api_error::{ApiError, ErrorCode};
use schemas::cursor;
use schemas::timestamp::UnixMs;

use crate::access::cookie;
use crate::access::jwks::KeySet;
use crate::access::jwt::{Jwt, SigningAlgorithm};
use crate::export::{ExportQuery, Format, RunExportParams};
use crate::params::Pairs;
use crate::platform::process::definition::{Definition, PutBuild};
use crate::platform::process::instance::InstancePosition;
use crate::platform::scan::health_response::{HealthResponse, assess};
use crate::platform::scan::history::ScanPosition;
use crate::platform::scan::storage;

/// The decoded pairs of a query string.
///
/// # Errors
/// A 400.
pub fn pairs(query: &str) -> Result<Vec<(String, String)>, ApiError> {
    let pairs = Pairs::read(query)?;
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    Ok(pairs.iter().map(owned).collect())
}

/// Whether a query string is valid for an export of runs.
///
/// # Errors
/// A 400.
pub fn export(query: &str) -> Result<(), ApiError> {
    let (own, pairs) = RunExportParams::split(&Pairs::read(query)?)?;
    ExportQuery::read(own.format.unwrap_or(Format::JsonLines), &pairs).map(drop)
}

/// The secrets in `Authorization`.
pub fn authorization(headers: &HeaderMap) -> Option<Vec<String>> {
    AuthHeader::read(headers).map(AuthHeader::into_secrets)
}

/// The session secret in `Cookie`.
pub fn session_cookie(headers: &HeaderMap, is_secure: bool) -> Option<String> {
    cookie::session_secret(headers, is_secure)
}

/// Whether a text is a JWT with an allowed algorithm and claims.
pub fn jwt(token: &str) -> bool {
    let all = SigningAlgorithm::ALL.map(|(_, algorithm)| algorithm);
    Jwt::parse(token).is_some_and(|jwt| jwt.algorithm(&all).is_ok() && jwt.claims().is_some())
}

/// The number of keys in a JWK set.
pub fn key_set(body: &[u8]) -> Option<usize> {
    KeySet::read(body).map(|keys| keys.len())
}

/// Decodes and encodes a cursor of the instance list.
///
/// # Errors
/// 400 `invalid_cursor` when the cursor does not belong to the filter.
pub fn instance_cursor(text: &str, filter: &[&str]) -> Result<String, ApiError> {
    let fingerprint = cursor::fingerprint(filter);
    let position: InstancePosition = cursor::decode(text, fingerprint)?;
    Ok(cursor::encode(&position, fingerprint))
}

/// The cursor of the instance list for a position.
pub fn write_instance_cursor(started_at_ms: UnixMs, uuid: &str, filter: &[&str]) -> String {
    let uuid = uuid.to_owned();
    let position = InstancePosition {
        started_at_ms,
        uuid,
    };
    cursor::encode(&position, cursor::fingerprint(filter))
}

/// Decodes and encodes a cursor of the scan list.
///
/// # Errors
/// 400 `invalid_cursor` when it is not a cursor.
pub fn scan_cursor(text: &str) -> Result<String, ApiError> {
    let fingerprint = cursor::fingerprint(&[]);
    let position: ScanPosition = cursor::decode(text, fingerprint)?;
    Ok(cursor::encode(&position, fingerprint))
}

/// The cursor of the scan list for a position.
pub fn write_scan_cursor(scanned_at_ms: UnixMs, scan_id: &str) -> String {
    let scan_id = scan_id.to_owned();
    let position = ScanPosition {
        scanned_at_ms,
        scan_id,
    };
    cursor::encode(&position, cursor::fingerprint(&[]))
}

/// The number of buckets on a page of an S3 listing, and the token of the next page.
pub fn storage_page(text: &str) -> Option<(u64, Option<String>)> {
    storage::read(text).map(|page| (page.buckets, page.token))
}

/// The problem and the version in a JSON health response.
pub fn health_answer(body: &[u8]) -> (Option<String>, Option<String>) {
    let health = assess(&HealthResponse {
        status: 200,
        is_json: true,
        body: Some(body),
    });
    (health.problem, health.version)
}

/// A build in its stored form.
///
/// # Errors
/// A 400.
pub fn build(body: &[u8]) -> Result<String, ApiError> {
    let put: PutBuild = serde_json::from_slice(body)
        .map_err(|error| ApiError::new(ErrorCode::InvalidBody, error.to_string()))?;
    let deadline = Instant::now() + Duration::from_secs(60);
    let definition = Definition::of(put, "project", "app", deadline)?;
    serde_json::to_string(&definition).map_err(|_| ApiError::internal())
}

/// Parses and writes a stored build.
///
/// # Errors
/// When the text is not a build.
pub fn stored_build(text: &str) -> Result<String, serde_json::Error> {
    serde_json::to_string(&serde_json::from_str::<Definition>(text)?)
}
