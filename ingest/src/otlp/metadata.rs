//! Attributes without a field of their own in an event: bounded, under their original names.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::attributes::Attributes;
use super::context::tags_of;
use super::value::{Any, Json, cut, plain};

/// Bytes of one value; longer ones are cut. What is meant to be long has a field of its own.
const VALUE_BYTES: usize = 8 << 10;
const KEY_BYTES: usize = 256;
/// Bytes of all metadata: a quarter of an event, so that input or output fits into the rest.
const ALL_BYTES: usize = 256 << 10;
/// Keys: far above what any convention writes, and every one is stored and searchable.
const KEYS: usize = 256;
/// Names with a fixed type in the metadata of an event, which is rejected if the type differs.
const MEANT_OTHERWISE: [&str; 2] = ["app_id", "tags"];

#[derive(Debug, Default)]
pub(crate) struct Metadata<'a> {
    pairs: BTreeMap<Cow<'a, str>, Json<'a>>,
    bytes: usize,
    left_out: u64,
}

impl<'a> Metadata<'a> {
    /// An existing value stays.
    pub(crate) fn insert(&mut self, key: impl Into<Cow<'a, str>>, value: Json<'a>) {
        let key = match key.into() {
            key if MEANT_OTHERWISE.contains(&key.as_ref()) => format!("attribute.{key}").into(),
            key if key.len() > KEY_BYTES => cut(&key, KEY_BYTES).to_owned().into(),
            key => key,
        };
        if self.pairs.contains_key(&key) {
            return;
        }
        let value = bounded(value, VALUE_BYTES);
        self.insert_whole(key, value);
    }

    /// Without the bound on one value, for lists whose elements are bounded.
    pub(crate) fn insert_whole(&mut self, key: Cow<'a, str>, value: Json<'a>) {
        let bytes = key.len() + value.bytes();
        if self.pairs.len() >= KEYS || self.bytes + bytes > ALL_BYTES {
            self.left_out += 1;
            return;
        }
        self.bytes += bytes;
        self.pairs.insert(key, value);
    }

    /// Counts attributes that the client dropped.
    pub(crate) fn count_left_out(&mut self, attributes: u32) {
        self.left_out += u64::from(attributes);
    }

    /// Adds all attributes that nothing else used. OpenInference's `metadata` is an object of the application's own
    /// keys, which the application searches by.
    pub(crate) fn insert_rest(&mut self, attributes: &Attributes<'a>) {
        if let Some(any) = attributes.take("metadata") {
            match super::value::parsed(any) {
                Value::Object(fields) => {
                    for (key, value) in fields {
                        let is_used = key == "tags" && tags_of(&value).is_some();
                        if !is_used && !value.is_null() {
                            self.insert(key, Json::from(value));
                        }
                    }
                }
                _ => self.insert("metadata", Json::read(any)),
            }
        }
        for (prefix, key) in [
            ("llm.tools.", "llm.tools"),
            ("gen_ai.tool.definitions.", "gen_ai.tool.definitions"),
        ] {
            if let Some(list) = super::flattened::restored(attributes.under(prefix)) {
                self.insert(key, Json::from(list));
            }
        }
        for (key, any) in attributes.rest() {
            // An empty text carries no information, and vectors are long.
            let is_empty = matches!(any, Any::StringValue(text) if text.is_empty());
            if !is_empty {
                self.insert(key, Json::read(any));
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pairs.is_empty() && self.left_out == 0
    }
}

/// The value, cut to the bound; what is cut becomes text.
pub(crate) fn bounded(value: Json<'_>, bytes: usize) -> Json<'_> {
    let length = value.bytes();
    if length <= bytes {
        return value;
    }
    Json::Text(format!("{}… ({length} bytes)", cut(value.written(), bytes)).into())
}

/// Attributes of a span's event or link as an object, each value cut.
pub(crate) fn small_object(pairs: &[opentelemetry_proto::tonic::common::v1::KeyValue]) -> Value {
    let pairs = pairs.iter().filter_map(|pair| {
        let value = plain(super::value::held(pair.value.as_ref())?);
        Some((pair.key.clone(), short(value)))
    });
    Value::Object(pairs.collect())
}

fn short(value: Value) -> Value {
    match bounded(Json::from(value.clone()), VALUE_BYTES / 4) {
        Json::Text(text) => text.into_owned().into(),
        Json::Raw(_) => value,
    }
}

impl Serialize for Metadata<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let left_out = (self.left_out > 0).then(|| {
            let count = Json::from(Value::from(self.left_out));
            (Cow::Borrowed("dropped_attributes"), count)
        });
        serializer.collect_map(
            self.pairs
                .iter()
                .map(|(key, value)| (key, value.clone()))
                .chain(left_out.iter().map(|(key, value)| (key, value.clone()))),
        )
    }
}
