//! The JSON encoding: names in camelCase, identifiers in hexadecimal digits, times as text or number.
//!
//! The body as a whole is parsed only to find where each span begins and ends; the spans are parsed one by one.

use std::sync::Arc;

use bytes::Bytes;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use schemas::api_error::ApiError;
use schemas::event::EventFault;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Item, Room, lenient, malformed, unreadable, within_bound};
use crate::otlp::source::Source;

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow, default, rename = "resourceSpans", alias = "resourceLogs")]
    list: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
struct OfResource<'a> {
    #[serde(borrow)]
    resource: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "scopeSpans", alias = "scopeLogs")]
    scopes: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
struct OfScope<'a> {
    #[serde(borrow)]
    scope: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "spans", alias = "logRecords")]
    items: Option<Vec<&'a RawValue>>,
}

pub(super) fn visit<T: Item>(
    body: &Bytes,
    room: &mut Room<impl FnMut(usize) -> bool>,
    visitor: &mut impl FnMut(&Arc<Source>, Result<T, EventFault>) -> Result<(), ApiError>,
) -> Result<(), ApiError> {
    let text = std::str::from_utf8(body).map_err(malformed)?;
    let Request { list } = object(text).map_err(malformed)?;
    for of_resource in list.unwrap_or_default() {
        let OfResource { resource, scopes } = object(of_resource.get()).map_err(malformed)?;
        let resource: Option<Resource> = of_all(resource, room)?;
        let shared = Source::of_resource(&resource.unwrap_or_default());
        for of_scope in scopes.unwrap_or_default() {
            let OfScope { scope, items } = object(of_scope.get()).map_err(malformed)?;
            let scope: Option<InstrumentationScope> = of_all(scope, room)?;
            let source = Arc::new(shared.with_scope(&scope.unwrap_or_default()));
            for item in items.unwrap_or_default() {
                let item = match within_bound(item.get().len()) {
                    Ok(()) => read(item.get(), room)?,
                    Err(fault) => Err(fault),
                };
                visitor(&source, item)?;
            }
        }
    }
    Ok(())
}

/// Parses an object. serde would accept a list of a struct's values too.
fn object<'a, T: Deserialize<'a>>(text: &'a str) -> serde_json::Result<T> {
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text);
    }
    Err(serde::de::Error::custom("an object is needed"))
}

/// Parses an item strictly, or else leniently.
fn read<T: Item>(
    text: &str,
    room: &mut Room<impl FnMut(usize) -> bool>,
) -> Result<Result<T, EventFault>, ApiError> {
    // Every element is an object, so this is an upper bound.
    let elements = memchr::memchr_iter(b'{', text.as_bytes()).count();
    if let Err(fault) = room.take(text.len(), elements)? {
        return Ok(Err(fault));
    }
    if let Ok(item) = object(text) {
        return Ok(Ok(item));
    }
    let room = room.take(text.len(), elements * lenient::COST)?;
    Ok(room.and_then(|()| object(text).and_then(lenient::read).map_err(unreadable)))
}

/// A resource or scope before many spans. An unreadable one is empty; the spans after it are still good.
fn of_all<T: Item>(
    raw: Option<&RawValue>,
    room: &mut Room<impl FnMut(usize) -> bool>,
) -> Result<Option<T>, ApiError> {
    match raw {
        Some(raw) if within_bound(raw.get().len()).is_ok() => Ok(read(raw.get(), room)?.ok()),
        _ => Ok(None),
    }
}
