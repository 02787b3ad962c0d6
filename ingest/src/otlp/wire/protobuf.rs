//! The protobuf encoding. Walks the fields down to the spans and decodes only those messages.
//!
//! The field numbers come from opentelemetry-proto; they are the same for traces and for logs: 1 is the list of a
//! request, in it 1 the resource and 2 the scopes, in those 1 the scope and 2 the spans or records.

use std::sync::Arc;

use bytes::Bytes;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use schemas::api_error::ApiError;
use schemas::event::EventFault;

use super::room;
use super::{Item, Room, malformed, unreadable, within_bound};
use crate::otlp::source::Source;

const REQUEST_LIST: u32 = 1;
const RESOURCE: u32 = 1;
const SCOPES: u32 = 2;
const SCOPE: u32 = 1;
const ITEMS: u32 = 2;

pub(super) fn visit<T: Item>(
    body: &Bytes,
    room: &mut Room<impl FnMut(usize) -> bool>,
    visitor: &mut impl FnMut(&Arc<Source>, Result<T, EventFault>) -> Result<(), ApiError>,
) -> Result<(), ApiError> {
    for of_resource in Messages::of(body, REQUEST_LIST) {
        let of_resource = of_resource?;
        let resource: Option<Resource> = last(&of_resource, RESOURCE, room)?;
        let shared = Source::of_resource(&resource.unwrap_or_default());
        for of_scope in Messages::of(&of_resource, SCOPES) {
            let of_scope = of_scope?;
            let scope: Option<InstrumentationScope> = last(&of_scope, SCOPE, room)?;
            let source = Arc::new(shared.with_scope(&scope.unwrap_or_default()));
            for item in Messages::of(&of_scope, ITEMS) {
                let item = item?;
                let item = match within_bound(item.len()) {
                    Ok(()) => room
                        .take(item.len(), room::elements(T::SHAPE, &item))?
                        .and_then(|()| T::decode(item).map_err(unreadable)),
                    Err(fault) => Err(fault),
                };
                visitor(&source, item)?;
            }
        }
    }
    Ok(())
}

/// The last message under a number, which is the one that counts if there are several. An unreadable one is empty; the
/// spans after it are still good.
fn last<T: Item>(
    bytes: &Bytes,
    number: u32,
    room: &mut Room<impl FnMut(usize) -> bool>,
) -> Result<Option<T>, ApiError> {
    let mut found = None;
    for message in Messages::of(bytes, number) {
        found = Some(message?);
    }
    match found {
        Some(bytes) if within_bound(bytes.len()).is_ok() => {
            let room = room.take(bytes.len(), room::elements(T::SHAPE, &bytes))?;
            Ok(room.ok().and_then(|()| T::decode(bytes).ok()))
        }
        _ => Ok(None),
    }
}

/// The messages under one number, as bytes; other fields are skipped.
struct Messages {
    rest: Bytes,
    number: u32,
}

impl Messages {
    fn of(bytes: &Bytes, number: u32) -> Self {
        Self {
            rest: bytes.clone(),
            number,
        }
    }

    fn step(&mut self) -> Result<Option<Bytes>, ApiError> {
        let (number, wire_type) = decode_key(&mut self.rest).map_err(malformed)?;
        if number != self.number || wire_type != WireType::LengthDelimited {
            skip_field(wire_type, number, &mut self.rest, DecodeContext::default())
                .map_err(malformed)?;
            return Ok(None);
        }
        let length = decode_varint(&mut self.rest).map_err(malformed)?;
        match usize::try_from(length) {
            Ok(length) if length <= self.rest.len() => Ok(Some(self.rest.split_to(length))),
            _ => Err(malformed("it ends before its end")),
        }
    }
}

impl Iterator for Messages {
    type Item = Result<Bytes, ApiError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.rest.is_empty() {
            match self.step() {
                Ok(None) => {}
                Ok(Some(message)) => return Some(Ok(message)),
                Err(error) => {
                    self.rest = Bytes::new();
                    return Some(Err(error));
                }
            }
        }
        None
    }
}
