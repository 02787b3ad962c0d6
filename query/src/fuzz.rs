//! Entries to the private parsers of this tier, for the fuzz targets alone. Not part of the interface.

use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use schemas::fault::Fault;
use schemas::timestamp::UnixMs;

use crate::access::jwks::KeySet;
use crate::access::jwt::{Jwt, SigningAlgorithm};
use crate::access::{cookie, presented};
use crate::export::question::{Format, Question};
use crate::params::Pairs;
use crate::platform::process::cursor;
use crate::platform::process::definition::{Definition, PutBuild};
use crate::platform::scan::health_answer::{HealthAnswer, verdict};
use crate::platform::scan::{history, storage};

/// The decoded pairs of a query string.
///
/// # Errors
/// A 400 that says what is wrong.
pub fn pairs(query: &str) -> Result<Vec<(String, String)>, Fault> {
    let pairs = Pairs::read(query)?;
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    Ok(pairs.iter().map(owned).collect())
}

/// Whether the query string is one of an export.
///
/// # Errors
/// A 400 that says what is wrong.
pub fn export(query: &str) -> Result<(), Fault> {
    let formats = [Format::JsonLines, Format::Csv, Format::Parquet];
    Question::read(&Pairs::read(query)?, &formats).map(drop)
}

/// The secrets in `Authorization`, in the order in which they are tried.
pub fn authorization(headers: &HeaderMap) -> Option<Vec<String>> {
    presented::presented(headers)
}

/// The secret of the session in `Cookie`.
pub fn session_cookie(headers: &HeaderMap, is_secure: bool) -> Option<String> {
    cookie::presented(headers, is_secure)
}

/// Whether a text has the form of a JWT that names an allowed algorithm and has claims.
pub fn jwt(token: &str) -> bool {
    let all = SigningAlgorithm::ALL.map(|(_, algorithm)| algorithm);
    Jwt::of(token).is_some_and(|jwt| jwt.algorithm(&all).is_ok() && jwt.claims().is_some())
}

/// The number of keys in a JWK set.
pub fn key_set(body: &[u8]) -> Option<usize> {
    KeySet::read(body).map(|keys| keys.len())
}

/// The position in a cursor of the instance list.
///
/// # Errors
/// A 400 when the cursor does not belong to the filter.
pub fn instance_cursor(text: &str, filter: &[&str]) -> Result<(UnixMs, String), Fault> {
    cursor::decode(text, filter)
}

/// The cursor of the instance list for a position.
pub fn write_instance_cursor((started_at, uuid): (UnixMs, &str), filter: &[&str]) -> String {
    cursor::encode((started_at, uuid), filter)
}

/// The position in a cursor of the scan list.
///
/// # Errors
/// A 400 when it is not a cursor.
pub fn scan_cursor(text: &str) -> Result<(i64, String), Fault> {
    history::read_cursor(text).map(|place| (place.scanned_at, place.scan_id))
}

/// The number of buckets in a page of a storage's list, and where the next page begins.
pub fn storage_page(text: &str) -> Option<(u64, Option<String>)> {
    storage::read(text).map(|page| (page.buckets, page.token))
}

/// What a service says against itself, and its version, in a health answer of JSON.
pub fn health_answer(body: &[u8]) -> (Option<String>, Option<String>) {
    let verdict = verdict(&HealthAnswer {
        status: 200,
        is_json: true,
        body: Some(body),
    });
    (verdict.problem, verdict.version)
}

/// A registered build as it is stored, JSON.
///
/// # Errors
/// A 400 that names what is wrong.
pub fn build(body: &[u8]) -> Result<String, Fault> {
    let put: PutBuild = serde_json::from_slice(body)
        .map_err(|error| Fault::bad_request("invalid_body", error.to_string()))?;
    let deadline = Instant::now() + Duration::from_secs(60);
    let definition = Definition::of(put, ("project", "app"), deadline)?;
    serde_json::to_string(&definition).map_err(|_| Fault::internal())
}

/// A stored build, read and written again.
///
/// # Errors
/// When the text is not one.
pub fn stored_build(text: &str) -> Result<String, serde_json::Error> {
    serde_json::to_string(&serde_json::from_str::<Definition>(text)?)
}
