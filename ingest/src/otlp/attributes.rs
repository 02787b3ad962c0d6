//! The attributes of a span or a record, by name; attributes that no rule reads become metadata.

use std::borrow::Cow;
use std::cell::Cell;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use schemas::limits;

use super::value::{Any, held};

#[derive(Debug)]
pub(crate) struct Attributes<'a> {
    /// Sorted by key.
    entries: Vec<Entry<'a>>,
    lengths: Lengths,
    scope: &'a str,
}

/// Lengths of the keys, modulo 64, one bit each: most names that are looked up are absent, and most of those have a
/// length that no key has.
#[derive(Debug, Default)]
struct Lengths(u64);

impl Lengths {
    fn add(&mut self, key: &str) {
        self.0 |= Self::bit(key);
    }

    fn may_contain(&self, key: &str) -> bool {
        self.0 & Self::bit(key) != 0
    }

    fn bit(key: &str) -> u64 {
        1 << (key.len() % 64)
    }
}

#[derive(Debug)]
struct Entry<'a> {
    key: &'a str,
    value: &'a Any,
    is_taken: Cell<bool>,
}

impl<'a> Attributes<'a> {
    /// Of two attributes with one name the last counts; attributes without a value are dropped.
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
        // Stable, so that the last of equal names comes first.
        entries.sort_by_key(|entry| entry.key);
        entries.dedup_by_key(|entry| entry.key);
        let mut lengths = Lengths::default();
        entries.iter().for_each(|entry| lengths.add(entry.key));
        Self {
            entries,
            lengths,
            scope: "",
        }
    }

    /// The attributes with the name of their instrumentation scope.
    pub(crate) fn of_scope(self, scope: &'a str) -> Self {
        Self { scope, ..self }
    }

    /// The instrumentation that wrote the attributes; empty if it is unknown.
    pub(crate) fn scope(&self) -> &'a str {
        self.scope
    }

    fn entry(&self, key: &str) -> Option<&Entry<'a>> {
        if !self.lengths.may_contain(key) {
            return None;
        }
        let place = self.entries.binary_search_by_key(&key, |entry| entry.key);
        self.entries.get(place.ok()?)
    }

    /// Leaves the value for others.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Any> {
        self.entry(key).map(|entry| entry.value)
    }

    /// Takes the value, which is then no longer metadata.
    pub(crate) fn take(&self, key: &str) -> Option<&'a Any> {
        let entry = self.entry(key)?;
        entry.is_taken.set(true);
        Some(entry.value)
    }

    /// Leaves the text for others.
    pub(crate) fn text(&self, key: &str) -> Option<&'a str> {
        match self.get(key)? {
            Any::StringValue(text) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// The first of these attributes that `read` accepts. It and attributes with the same value are taken; one with
    /// another value stays, so that it remains visible.
    pub(crate) fn first<K: AsRef<str>, T: PartialEq>(
        &self,
        keys: impl IntoIterator<Item = K>,
        read: impl Fn(&'a Any) -> Option<T>,
    ) -> Option<T> {
        let mut found = None;
        for key in keys {
            let Some(entry) = self.entry(key.as_ref()) else {
                continue;
            };
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
    pub(crate) fn name<K: AsRef<str>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Option<Cow<'a, str>> {
        self.first(keys, |any| short(any, limits::NAME_BYTES))
    }

    /// The first of these that is an identifier within its bound.
    pub(crate) fn id<K: AsRef<str>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Option<Cow<'a, str>> {
        self.first(keys, |any| short(any, limits::ID_BYTES))
    }

    /// Whether there is an attribute with this prefix.
    pub(crate) fn has_under(&self, prefix: &str) -> bool {
        self.keys_under(prefix).next().is_some()
    }

    /// The names of the attributes with this prefix, which stay for others.
    pub(crate) fn keys_under<'s>(
        &'s self,
        prefix: &'s str,
    ) -> impl Iterator<Item = &'a str> + use<'a, 's> {
        let start = self.entries.partition_point(|entry| entry.key < prefix);
        let from = self.entries[start..].iter().map(|entry| entry.key);
        from.take_while(move |key| key.starts_with(prefix))
    }

    /// Takes all attributes with this prefix, with the rest of their names.
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

    /// Attributes that no rule has taken.
    pub(crate) fn rest(&self) -> impl Iterator<Item = (&'a str, &'a Any)> {
        self.entries
            .iter()
            .filter(|entry| !entry.is_taken.get())
            .map(|entry| (entry.key, entry.value))
    }
}

/// A text of at most `limit` bytes, or a number in place of a text.
fn short(any: &Any, limit: usize) -> Option<Cow<'_, str>> {
    match any {
        Any::StringValue(text) if (1..=limit).contains(&text.len()) => Some(text.into()),
        Any::IntValue(number) => Some(number.to_string().into()),
        _ => None,
    }
}
