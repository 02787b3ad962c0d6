//! Decoding of columns that serde's derive cannot read as they are stored.

use clickhouse::Row;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

/// The columns of a row, in its order, for `SELECT`.
pub(crate) fn columns_of<T: Row>() -> String {
    T::COLUMN_NAMES.join(", ")
}

/// [`columns_of`] with an SQL expression in place of one column.
pub(crate) fn columns_with<T: Row>(replaced: &str, sql: &str) -> String {
    let columns = T::COLUMN_NAMES
        .iter()
        .map(|column| match *column == replaced {
            true => format!("{sql} AS {column}"),
            false => (*column).to_owned(),
        });
    columns.collect::<Vec<_>>().join(", ")
}

/// An enumeration stored as a number. Numbers of a later version become the default.
pub(crate) fn number<'de, D: Deserializer<'de>, T: TryFrom<i8> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(T::try_from(i8::deserialize(deserializer)?).unwrap_or_default())
}

/// A `String` column that need not be UTF-8.
pub(crate) fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    struct Bytes;

    impl Visitor<'_> for Bytes {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("bytes")
        }

        fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
            Ok(bytes.to_vec())
        }

        fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
            Ok(bytes)
        }
    }

    deserializer.deserialize_byte_buf(Bytes)
}
