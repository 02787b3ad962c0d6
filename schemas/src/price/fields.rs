//! The fields of a JSON object with the exact text of their values.

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The fields in their order. Each is there once.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<(String, Box<RawValue>)>);

impl Fields {
    /// Takes a field out; `null` is absent.
    pub(super) fn take(&mut self, name: &str) -> Option<Box<RawValue>> {
        let at = self.0.iter().position(|(field, _)| field == name)?;
        let (_, value) = self.0.remove(at);
        (value.get() != "null").then_some(value)
    }

    /// Takes a field out as a value of a type; the error names it.
    pub(super) fn take_as<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, String> {
        let value = self.take(name);
        let read = |value: Box<RawValue>| serde_json::from_str(value.get());
        let value = value.map(read).transpose();
        value.map_err(|error| format!("`{name}`: {error}"))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), &**value))
    }
}

impl IntoIterator for Fields {
    type Item = (String, Box<RawValue>);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    /// Without those that are `null`.
    fn into_iter(mut self) -> Self::IntoIter {
        self.0.retain(|(_, value)| value.get() != "null");
        self.0.into_iter()
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Fields;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields: Vec<(String, Box<RawValue>)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    // As many fields as a price has: a body of very many would take the square of its size.
                    if fields.len() == FIELDS_MAX {
                        return Err(Error::custom(format!(
                            "an object has at most {FIELDS_MAX} fields"
                        )));
                    }
                    if fields.iter().any(|(other, _)| *other == name) {
                        return Err(Error::custom(format!("field `{name}` is there twice")));
                    }
                    fields.push((name, value));
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

/// More than twice the fields of a price (X1).
const FIELDS_MAX: usize = 64;
