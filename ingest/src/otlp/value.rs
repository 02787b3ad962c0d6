//! Values of attributes as JSON.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

/// A present value of an attribute.
pub(crate) type Any = any_value::Value;

/// A JSON value for an event, borrowed where possible.
#[derive(Clone, Debug)]
pub(crate) enum Json<'a> {
    Text(Cow<'a, str>),
    /// Serialized JSON.
    Raw(Cow<'a, RawValue>),
}

impl<'a> Json<'a> {
    /// The value as it is.
    pub(crate) fn of(any: &'a Any) -> Self {
        match any {
            Any::StringValue(text) => Self::Text(text.into()),
            other => Self::from(plain(other)),
        }
    }

    /// The value, with JSON objects and lists inside of a text parsed.
    pub(crate) fn read(any: &'a Any) -> Self {
        match any {
            Any::StringValue(text) if text.trim_start().starts_with(['{', '[']) => {
                Self::inside(text)
            }
            other => Self::of(other),
        }
    }

    /// The JSON in a text; the text itself if it is none.
    pub(crate) fn inside(text: &'a str) -> Self {
        let raw = serde_json::from_str::<Readable>(text)
            .and_then(|_| serde_json::from_str::<&RawValue>(text));
        match raw {
            Ok(raw) => Self::Raw(Cow::Borrowed(raw)),
            Err(_) => Self::Text(text.into()),
        }
    }

    pub(crate) fn written_out(raw: Box<RawValue>) -> Self {
        Self::Raw(Cow::Owned(raw))
    }

    /// Approximate bytes, for a bound.
    pub(crate) fn bytes(&self) -> usize {
        self.written().len()
    }

    /// The text, or the JSON.
    pub(crate) fn written(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Raw(raw) => raw.get(),
        }
    }
}

impl From<Value> for Json<'_> {
    fn from(value: Value) -> Self {
        match value {
            Value::String(text) => Self::Text(text.into()),
            // Serializing a `Value` cannot fail.
            other => {
                to_raw_value(&other).map_or(Self::Text("".into()), |raw| Self::Raw(Cow::Owned(raw)))
            }
        }
    }
}

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Raw(raw) => raw.serialize(serializer),
        }
    }
}

pub(crate) fn held(value: Option<&AnyValue>) -> Option<&Any> {
    value.and_then(|value| value.value.as_ref())
}

/// The value for serde_json. Numbers that JSON cannot express become text, bytes base64.
pub(crate) fn plain(any: &Any) -> Value {
    match any {
        Any::StringValue(text) => text.as_str().into(),
        Any::BoolValue(yes) => (*yes).into(),
        Any::IntValue(number) => (*number).into(),
        Any::DoubleValue(number) if number.is_finite() => (*number).into(),
        Any::DoubleValue(number) => number.to_string().into(),
        Any::ArrayValue(list) => {
            let values = list.values.iter();
            values
                .map(|value| held(Some(value)).map_or(Value::Null, plain))
                .collect()
        }
        Any::KvlistValue(pairs) => Value::Object(object(&pairs.values)),
        Any::BytesValue(bytes) => STANDARD.encode(bytes).into(),
        // Only used by the profiling signal.
        Any::StringValueStrindex(_) => Value::Null,
    }
}

/// Pairs as an object; of two with one key the last.
pub(crate) fn object(pairs: &[KeyValue]) -> Map<String, Value> {
    let pairs = pairs.iter();
    pairs
        .filter_map(|pair| Some((pair.key.clone(), plain(held(pair.value.as_ref())?))))
        .collect()
}

/// The value, with JSON inside of a text parsed. `Null` if there is none.
pub(crate) fn parsed(any: &Any) -> Value {
    match any {
        Any::StringValue(text) if text.trim_start().starts_with(['{', '[']) => {
            serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into())
        }
        other => plain(other),
    }
}

/// The longest prefix of at most `bytes` bytes that ends at a character boundary.
pub(crate) fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Deserializes to nothing, to check JSON that everything downstream can read: within serde_json's bound on depth, with
/// valid texts and numbers.
struct Readable;

impl<'de> Deserialize<'de> for Readable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Readable {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        while map.next_entry::<Self, Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self, A::Error> {
        while seq.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }
}
