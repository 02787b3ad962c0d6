//! The bytes of a run's state in the `runs` table: a format byte, then numbered fields without separators.
//!
//! Format `f` contains the fields `0..OLDEST_FIELDS + f - 1`, each as postcard. A field is added at the end of the list
//! in `state.rs`, which makes a new format: rows of earlier formats decode as before and leave the field at its
//! default. A state is written in the oldest format that holds all of its values, so rows that do not use a new field
//! keep their bytes, and earlier versions still read them.

use serde::ser::{Serialize, SerializeTuple, Serializer};

use super::state::StateFault;

/// Fields of format 1.
pub(super) const OLDEST_FIELDS: u8 = 23;
const OLDEST: u8 = 1;

/// A state whose fields are numbered in the order in which formats gained them. Their numbers and types never change.
pub(super) trait StoredFields: Default {
    /// Number of fields.
    const COUNT: u8;

    /// Whether the field differs from its default.
    fn is_set(&self, field: u8) -> bool;

    /// Writes the field as the next element.
    fn write<T: SerializeTuple>(&self, field: u8, fields: &mut T) -> Result<(), T::Error>;

    /// Reads the field from the start of the bytes and returns the rest.
    fn read<'a>(&mut self, field: u8, bytes: &'a [u8]) -> postcard::Result<&'a [u8]>;
}

pub(super) fn encode<S: StoredFields>(state: &S) -> Result<Vec<u8>, StateFault> {
    let newest = (OLDEST_FIELDS..S::COUNT)
        .rev()
        .find(|field| state.is_set(*field));
    let count = newest.map_or(OLDEST_FIELDS, |field| field + 1);
    // A run of two events takes about this much.
    let mut bytes = Vec::with_capacity(384);
    bytes.push(count - OLDEST_FIELDS + OLDEST);
    Ok(postcard::to_extend(&Fields { state, count }, bytes)?)
}

/// The first fields of a state as one tuple, which adds no bytes in postcard.
struct Fields<'a, S> {
    state: &'a S,
    count: u8,
}

impl<S: StoredFields> Serialize for Fields<'_, S> {
    fn serialize<T: Serializer>(&self, serializer: T) -> Result<T::Ok, T::Error> {
        let mut fields = serializer.serialize_tuple(usize::from(self.count))?;
        for field in 0..self.count {
            self.state.write(field, &mut fields)?;
        }
        fields.end()
    }
}

pub(super) fn decode<S: StoredFields>(bytes: &[u8]) -> Result<S, StateFault> {
    let Some((format, mut rest)) = bytes.split_first() else {
        return Err(StateFault::Empty);
    };
    let newest = S::COUNT - OLDEST_FIELDS + OLDEST;
    if !(OLDEST..=newest).contains(format) {
        return Err(StateFault::UnknownFormat {
            format: *format,
            newest,
        });
    }
    let mut state = S::default();
    for field in 0..OLDEST_FIELDS + format - OLDEST {
        rest = state.read(field, rest)?;
    }
    Ok(state)
}

/// Numbers the fields of a state. Each name after the `=` is a module with `is_set`, `write` and `read` for the field.
/// A field of the struct that is not listed does not compile.
macro_rules! stored_fields {
    ($state:ident { $($number:literal: $field:ident = $codec:ident),+ $(,)? }) => {
        impl crate::fold::stored::StoredFields for $state {
            const COUNT: u8 = [$($number),+].len() as u8;

            fn is_set(&self, field: u8) -> bool {
                let Self { $($field),+ } = self;
                match field {
                    $($number => $codec::is_set($field),)+
                    _ => false,
                }
            }

            fn write<T: serde::ser::SerializeTuple>(
                &self,
                field: u8,
                fields: &mut T,
            ) -> Result<(), T::Error> {
                match field {
                    $($number => $codec::write(&self.$field, fields),)+
                    _ => Ok(()),
                }
            }

            fn read<'a>(&mut self, field: u8, bytes: &'a [u8]) -> postcard::Result<&'a [u8]> {
                match field {
                    $($number => $codec::read(&mut self.$field, bytes),)+
                    _ => Ok(bytes),
                }
            }
        }
    };
}
pub(super) use stored_fields;

/// The value itself.
pub(super) mod value {
    use serde::ser::SerializeTuple;
    use serde::{Deserialize, Serialize};

    pub(in crate::fold) fn is_set<T: Default + PartialEq>(value: &T) -> bool {
        *value != T::default()
    }

    pub(in crate::fold) fn write<V: Serialize, T: SerializeTuple>(
        value: &V,
        fields: &mut T,
    ) -> Result<(), T::Error> {
        fields.serialize_element(value)
    }

    pub(in crate::fold) fn read<'a, T: Deserialize<'a>>(
        value: &mut T,
        bytes: &'a [u8],
    ) -> postcard::Result<&'a [u8]> {
        let (read, rest) = postcard::take_from_bytes(bytes)?;
        *value = read;
        Ok(rest)
    }
}

/// The stamp of a preview, whose text is in a separate column.
pub(super) mod preview_stamp {
    use serde::ser::SerializeTuple;

    use super::value;
    use crate::fold::{First, Last, Stamp};

    pub(in crate::fold) trait Preview: Default + PartialEq {
        fn stamp(&self) -> Option<Stamp>;
        fn with_stamp(stamp: Option<Stamp>) -> Self;
    }

    macro_rules! previews {
        ($($register:ident),+) => {$(
            impl Preview for $register<Box<str>> {
                fn stamp(&self) -> Option<Stamp> {
                    self.stamp()
                }

                fn with_stamp(stamp: Option<Stamp>) -> Self {
                    Self::from_parts(stamp, Box::default())
                }
            }
        )+};
    }
    previews!(First, Last);

    pub(in crate::fold) fn is_set<P: Preview>(preview: &P) -> bool {
        preview.stamp().is_some()
    }

    pub(in crate::fold) fn write<P: Preview, T: SerializeTuple>(
        preview: &P,
        fields: &mut T,
    ) -> Result<(), T::Error> {
        fields.serialize_element(&preview.stamp())
    }

    pub(in crate::fold) fn read<'a, P: Preview>(
        preview: &mut P,
        bytes: &'a [u8],
    ) -> postcard::Result<&'a [u8]> {
        let mut stamp = None;
        let rest = value::read(&mut stamp, bytes)?;
        *preview = P::with_stamp(stamp);
        Ok(rest)
    }
}

/// Marks are written without a presence flag, as in format 2. If a newer field follows, absent marks are written as
/// empty ones.
pub(super) mod boxed_marks {
    use serde::ser::SerializeTuple;

    use super::value;
    use crate::fold::marks::Marks;

    pub(in crate::fold) fn is_set(marks: &Option<Box<Marks>>) -> bool {
        marks.is_some()
    }

    pub(in crate::fold) fn write<T: SerializeTuple>(
        marks: &Option<Box<Marks>>,
        fields: &mut T,
    ) -> Result<(), T::Error> {
        match marks {
            Some(marks) => fields.serialize_element(marks),
            None => fields.serialize_element(&Marks::default()),
        }
    }

    pub(in crate::fold) fn read<'a>(
        marks: &mut Option<Box<Marks>>,
        bytes: &'a [u8],
    ) -> postcard::Result<&'a [u8]> {
        let mut read = Marks::default();
        let rest = value::read(&mut read, bytes)?;
        *marks = (read != Marks::default()).then(|| Box::new(read));
        Ok(rest)
    }
}

#[cfg(test)]
mod tests;
