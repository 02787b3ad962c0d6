//! A batch of Langfuse's SDKs as a format of intake.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use api::request_body::{self, MediaType};
use axum::body::Body;
use axum::http::HeaderMap;
use schemas::api_error::{ApiError, ErrorCode, EventCode};
use schemas::event::EventFault;
use schemas::limits;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::observation::{self, Names};
use super::score;
use crate::body::{self, Bounds, Received};
use crate::config::ClientCost;
use crate::intake::{Content, Decoded, Format, Taken};
use crate::outcome::Rejections;

/// Items are translated on the thread that serves connections up to this size of a body.
const INLINE_BYTES: usize = 128 << 10;
/// Bytes of the events of a body, as a multiple of the limit of a body: an item becomes up to three events.
const TRANSLATED_LIMITS: usize = 4;
/// Bytes of an item: one observation with input and output, which an event may have each.
const ITEM_BYTES: usize = 2 * limits::EVENT_BYTES;
/// Memory of an item while it is translated, as a multiple of its bytes: a value of two bytes takes 32.
const ITEM_FACTOR: usize = 24;
/// Memory of the names of a batch's observations, as a multiple of the body.
const NAMES_FACTOR: usize = 3;
/// Items of a batch: their names and faults are in memory until the answer is written (X1). The SDKs send 15 at a time.
const ITEMS_MAX: usize = 10_000;
/// Events of an item: its start, its end, and the end of its trace.
const ITEM_EVENTS: usize = 3;
const HEAD: &[u8] = b"{\"events\":[";
const TAIL: &[u8] = b"]}";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `{"batch": [{"id", "type", "timestamp", "body"}, ...]}`.
    Ingestion,
    /// A score, or a list of scores.
    Scores,
}

/// The items of a batch, and which of them were not translated.
#[derive(Debug, Default)]
pub(crate) struct Items {
    ids: Vec<String>,
    /// The item of each event.
    of_events: Vec<usize>,
    refused: BTreeMap<usize, String>,
    is_list: bool,
}

impl Items {
    pub(crate) fn ids(&self) -> &[String] {
        &self.ids
    }

    pub(crate) fn is_list(&self) -> bool {
        self.is_list
    }

    /// Why items were not kept, or not all of their events, by their index.
    pub(crate) fn faults(&self, taken: &Taken) -> BTreeMap<usize, String> {
        let mut faults = self.refused.clone();
        for error in taken.report.errors.iter().skip(taken.refused) {
            if let Some(item) = self.of_events.get(error.index) {
                faults.entry(*item).or_insert_with(|| error.message.clone());
            }
        }
        faults
    }
}

pub(crate) struct BatchFormat {
    kind: Kind,
    client_cost: ClientCost,
    items: Arc<OnceLock<Items>>,
}

impl BatchFormat {
    pub(crate) fn new(kind: Kind, client_cost: ClientCost) -> Self {
        Self {
            kind,
            client_cost,
            items: Arc::default(),
        }
    }

    /// The items, once the body is decoded.
    pub(crate) fn items(&self) -> &Items {
        self.items.get_or_init(Items::default)
    }
}

/// A body to translate into events of at most `limit` bytes.
pub(crate) struct Batch {
    kind: Kind,
    client_cost: ClientCost,
    limit: usize,
    items: Arc<OnceLock<Items>>,
}

impl Format for BatchFormat {
    type Content = Batch;

    async fn receive(
        &self,
        headers: &HeaderMap,
        body: &mut Body,
        bounds: Bounds,
    ) -> Result<(Received, Batch), ApiError> {
        MediaType::JsonOrNone.check(headers)?;
        let batch = Batch {
            kind: self.kind,
            client_cost: self.client_cost,
            limit: bounds.bytes.saturating_mul(TRANSLATED_LIMITS),
            items: Arc::clone(&self.items),
        };
        let received = body::read(body, body::encoding(headers)?, bounds).await?;
        Ok((received, batch))
    }
}

impl Content for Batch {
    const INLINE_BYTES: usize = INLINE_BYTES;
    const CAN_NAME_KEYS: bool = false;
    const REPORTED: usize = ITEMS_MAX * ITEM_EVENTS;

    fn decode(self, received: Received, now_ms: i64) -> Result<Decoded, ApiError> {
        let Received {
            bytes,
            mut reservation,
        } = received;
        let body = std::str::from_utf8(&bytes).map_err(|_| not_json("it is not UTF-8"))?;
        let mut of_names = reservation.beside();
        let names = match self.kind {
            Kind::Ingestion if !of_names.grow(bytes.len().saturating_mul(NAMES_FACTOR)) => {
                return Err(request_body::no_memory());
            }
            Kind::Ingestion => Names::of(body)?,
            Kind::Scores => Names::default(),
        };
        let most = reservation.most_of_item();
        let mut translation = Translation {
            kind: self.kind,
            terms: Terms {
                now_ms,
                client_cost: self.client_cost,
            },
            limit: self.limit,
            names,
            items: Items::default(),
            refused: Rejections::reporting(Self::REPORTED),
            events: HEAD.to_vec(),
        };
        visit(self.kind, body, |raw| {
            let mut beside = reservation.beside();
            let bytes = raw.get().len().min(ITEM_BYTES);
            if !beside.grow(bytes.saturating_mul(ITEM_FACTOR).min(most)) {
                return Err(request_body::no_memory());
            }
            translation.add(raw)
        })?;
        let Translation {
            mut items,
            refused,
            mut events,
            ..
        } = translation;
        items.is_list = body.trim_start().starts_with('[');
        // Every event is followed by a comma.
        if events.ends_with(b",") {
            events.pop();
        }
        events.extend_from_slice(TAIL);
        let more = events.len().saturating_sub(bytes.len());
        if !reservation.may_grow(more) {
            return Err(request_body::too_large(self.limit));
        }
        if !reservation.grow(more) {
            return Err(request_body::no_memory());
        }
        // Decoded once: a second time would have other items.
        let _ = self.items.set(items);
        Ok(Decoded {
            received: Received {
                bytes: events.into(),
                reservation,
            },
            refused,
            is_text: false,
        })
    }
}

/// What the events of an item depend on besides the item.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// When the body was read, Unix milliseconds.
    pub(super) now_ms: i64,
    pub(super) client_cost: ClientCost,
}

struct Translation {
    kind: Kind,
    terms: Terms,
    limit: usize,
    names: Names,
    items: Items,
    refused: Rejections,
    events: Vec<u8>,
}

impl Translation {
    fn add(&mut self, raw: &RawValue) -> Result<(), ApiError> {
        let index = self.items.ids.len();
        if index == ITEMS_MAX {
            let message = format!("{} must have at most {ITEMS_MAX} items", self.kind.list());
            return Err(ApiError::new(ErrorCode::InvalidJson, message));
        }
        let start = self.events.len();
        let (id, written) = match (self.kind, within_item(raw)) {
            (_, Err(fault)) => (String::new(), Err(fault)),
            (Kind::Ingestion, Ok(())) => {
                observation::write(raw, &self.names, self.terms, &mut self.events)
            }
            (Kind::Scores, Ok(())) => score::write_alone(raw, self.terms.now_ms, &mut self.events),
        };
        self.items.ids.push(id);
        match written {
            Ok(events) => {
                let of_item = std::iter::repeat_n(index, events);
                self.items.of_events.extend(of_item);
            }
            Err(fault) => {
                self.events.truncate(start);
                let message = format!("{}[{index}] {}", self.kind.list(), fault.message);
                self.items.refused.insert(index, message.clone());
                let fault = EventFault { message, ..fault };
                self.refused.add(index, fault);
            }
        }
        match self.events.len() <= self.limit {
            true => Ok(()),
            false => Err(request_body::too_large(self.limit)),
        }
    }
}

fn within_item(raw: &RawValue) -> Result<(), EventFault> {
    let bytes = raw.get().len();
    match bytes <= ITEM_BYTES {
        true => Ok(()),
        false => Err(EventFault {
            code: EventCode::EventTooLarge,
            message: format!("has {bytes} bytes; the limit is {ITEM_BYTES}"),
        }),
    }
}

impl Kind {
    /// The name of the list in messages.
    fn list(self) -> &'static str {
        match self {
            Self::Ingestion => "batch",
            Self::Scores => "scores",
        }
    }
}

fn not_json(why: impl fmt::Display) -> ApiError {
    ApiError::new(
        ErrorCode::InvalidJson,
        format!("the body is not JSON: {why}"),
    )
}

/// Visits the items of a body one by one, so that their number takes no memory.
pub(super) fn visit<'a>(
    kind: Kind,
    body: &'a str,
    mut visitor: impl FnMut(&'a RawValue) -> Result<(), ApiError>,
) -> Result<(), ApiError> {
    let is_one = kind == Kind::Scores && body.trim_start().starts_with('{');
    if is_one {
        let one: &RawValue = serde_json::from_str(body).map_err(not_json)?;
        return visitor(one);
    }
    let mut fault = None;
    let mut each = |raw| match visitor(raw) {
        Ok(()) => true,
        Err(error) => {
            fault = Some(error);
            false
        }
    };
    let mut deserializer = serde_json::Deserializer::from_str(body);
    let read = match kind {
        Kind::Scores => List(&mut each).deserialize(&mut deserializer),
        Kind::Ingestion => Envelope(&mut each).deserialize(&mut deserializer),
    };
    if let Some(fault) = fault {
        return Err(fault);
    }
    let read = read.and_then(|found| deserializer.end().map(|()| found));
    match read {
        Ok(true) => Ok(()),
        Ok(false) => Err(shape(kind)),
        Err(error) if error.is_data() => Err(shape(kind)),
        Err(error) => Err(not_json(error)),
    }
}

fn shape(kind: Kind) -> ApiError {
    let message = match kind {
        Kind::Ingestion => "the body must be {\"batch\": [...]}",
        Kind::Scores => "the body must be a score or a list of scores",
    };
    ApiError::new(ErrorCode::InvalidBody, message)
}

/// Whether there was a list; each of its items is visited until the visitor says no.
struct List<F>(F);

impl<'de, F: FnMut(&'de RawValue) -> bool> DeserializeSeed<'de> for List<F> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, F: FnMut(&'de RawValue) -> bool> Visitor<'de> for List<F> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<bool, A::Error> {
        let mut goes_on = true;
        while let Some(raw) = list.next_element::<&RawValue>()? {
            goes_on = goes_on && (self.0)(raw);
        }
        Ok(true)
    }
}

/// The field `batch` of an object.
struct Envelope<F>(F);

impl<'de, F: FnMut(&'de RawValue) -> bool> DeserializeSeed<'de> for Envelope<F> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, F: FnMut(&'de RawValue) -> bool> Visitor<'de> for Envelope<F> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a batch")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<bool, A::Error> {
        let mut found = false;
        while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            if key == "batch" && !found {
                found = map.next_value_seed(List(&mut self.0))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}
