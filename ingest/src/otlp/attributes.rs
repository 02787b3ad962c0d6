//! The attributes of a span or a record, by name; what nobody asked for is left for the metadata.

use std::borrow::Cow;
use std::cell::Cell;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use schemas::limits;

use super::value::{Any, held};

/// Attributes in order of their names.
#[derive(Debug)]
pub(crate) struct Attributes<'a> {
    entries: Vec<Entry<'a>>,
}

#[derive(Debug)]
struct Entry<'a> {
    key: &'a str,
    value: &'a Any,
    is_taken: Cell<bool>,
}

impl<'a> Attributes<'a> {
    /// Of two with one name the last counts; those without a value are none.
    pub(crate) fn new(
        pairs: impl IntoIterator<Item = &'a KeyValue, IntoIter: DoubleEndedIterator>,
    ) -> Self {
        let mut entries: Vec<Entry<'a>> = pairs
            .into_iter()
            .rev()
            .filter_map(|pair| {
                Some(Entry {
                    key: &pair.key,
                    value: held(pair.value.as_ref())?,
                    is_taken: Cell::new(false),
                })
            })
            .collect();
        // Stable, so that the last of equals is now the first.
        entries.sort_by_key(|entry| entry.key);
        entries.dedup_by_key(|entry| entry.key);
        Self { entries }
    }

    fn entry(&self, key: &str) -> Option<&Entry<'a>> {
        let place = self.entries.binary_search_by_key(&key, |entry| entry.key);
        self.entries.get(place.ok()?)
    }

    /// The value, which stays for others too.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Any> {
        self.entry(key).map(|entry| entry.value)
    }

    /// The value, which is then not metadata any more.
    pub(crate) fn take(&self, key: &str) -> Option<&'a Any> {
        let entry = self.entry(key)?;
        entry.is_taken.set(true);
        Some(entry.value)
    }

    /// The text, which stays for others too.
    pub(crate) fn text(&self, key: &str) -> Option<&'a str> {
        match self.get(key)? {
            Any::StringValue(text) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// The first of these that `read` makes something of. It and those that say the same are taken; one that says
    /// something else stays, so that it can be seen.
    pub(crate) fn first<T: PartialEq>(
        &self,
        keys: &[&str],
        read: impl Fn(&'a Any) -> Option<T>,
    ) -> Option<T> {
        let mut found = None;
        for entry in keys.iter().filter_map(|key| self.entry(key)) {
            let Some(value) = read(entry.value) else {
                continue;
            };
            match &found {
                Some(found) if *found != value => {}
                Some(_) => entry.is_taken.set(true),
                None => {
                    entry.is_taken.set(true);
                    found = Some(value);
                }
            }
        }
        found
    }

    /// The first of these that is a name within its bound.
    pub(crate) fn name(&self, keys: &[&str]) -> Option<Cow<'a, str>> {
        self.first(keys, |any| short(any, limits::NAME_BYTES))
    }

    /// The first of these that is an identifier within its bound.
    pub(crate) fn id(&self, keys: &[&str]) -> Option<Cow<'a, str>> {
        self.first(keys, |any| short(any, limits::ID_BYTES))
    }

    /// All whose name begins so, with the rest of their names; taken.
    pub(crate) fn under<'s>(
        &'s self,
        prefix: &'s str,
    ) -> impl Iterator<Item = (&'a str, &'a Any)> + use<'a, 's> {
        let start = self.entries.partition_point(|entry| entry.key < prefix);
        self.entries[start..].iter().map_while(move |entry| {
            let rest = entry.key.strip_prefix(prefix)?;
            entry.is_taken.set(true);
            Some((rest, entry.value))
        })
    }

    /// What nobody took.
    pub(crate) fn rest(&self) -> impl Iterator<Item = (&'a str, &'a Any)> {
        self.entries
            .iter()
            .filter(|entry| !entry.is_taken.get())
            .map(|entry| (entry.key, entry.value))
    }
}

/// A text of at most `limit` bytes, or a number where a text is usual.
fn short(any: &Any, limit: usize) -> Option<Cow<'_, str>> {
    match any {
        Any::StringValue(text) if (1..=limit).contains(&text.len()) => Some(text.into()),
        Any::IntValue(number) => Some(number.to_string().into()),
        _ => None,
    }
}
