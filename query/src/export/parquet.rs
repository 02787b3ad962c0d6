//! Parquet: exact decimals, times in UTC milliseconds, tags as a list; row groups of bounded size, compressed with zstd.
//!
//! The index is at the end of the file, so an incomplete file cannot be read: fetch large exports in parts with
//! `limit`.

use std::io;
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DoubleType, FixedLenByteArray, FixedLenByteArrayType,
    Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;

use super::body::Encoder;
use super::row::{Column, Row, Shape, Value};

/// Rows of one row group: large groups are faster to read, but a group is in memory until it is written.
const GROUP_ROWS: usize = 20_000;
/// Bytes of the strings of one row group, for the same reason.
const GROUP_BYTES: usize = 32 << 20;
/// Longest minimum and maximum of strings in the index: with full inputs it would be a copy of the file.
const STATISTICS_BYTES: usize = 64;

pub(crate) struct Parquet {
    columns: Vec<Column>,
    writer: SerializedFileWriter<Vec<u8>>,
    waiting: Vec<Row>,
    waiting_bytes: usize,
}

impl Parquet {
    pub(crate) fn new(shape: Shape) -> io::Result<Self> {
        let columns = shape.columns();
        let schema = parse_message_type(&schema(&columns)).map_err(parquet_error)?;
        let level = ZstdLevel::try_new(1).map_err(parquet_error)?;
        let properties = WriterProperties::builder()
            .set_created_by(concat!("spindle ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_compression(Compression::ZSTD(level))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_statistics_truncate_length(Some(STATISTICS_BYTES))
            .build();
        let writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties));
        Ok(Self {
            columns,
            writer: writer.map_err(parquet_error)?,
            waiting: Vec::new(),
            waiting_bytes: 0,
        })
    }

    fn group(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        let rows = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        if !rows.is_empty() {
            let mut group = self.writer.next_row_group().map_err(parquet_error)?;
            for column in &self.columns {
                let Some(mut writer) = group.next_column().map_err(parquet_error)? else {
                    return Err(io::Error::other("the schema has fewer columns than a row"));
                };
                write(&mut writer, column.value, &rows).map_err(parquet_error)?;
                writer.close().map_err(parquet_error)?;
            }
            group.close().map_err(parquet_error)?;
        }
        self.drain(out)
    }

    fn drain(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.writer.flush()?;
        out.append(self.writer.inner_mut());
        Ok(())
    }
}

impl Encoder for Parquet {
    fn rows(&mut self, rows: Vec<Row>, out: &mut Vec<u8>) -> io::Result<()> {
        for row in rows {
            self.waiting_bytes += text_bytes(&row);
            self.waiting.push(row);
            if self.waiting.len() >= GROUP_ROWS || self.waiting_bytes >= GROUP_BYTES {
                self.group(out)?;
            }
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.group(out)?;
        self.writer.finish().map_err(parquet_error)?;
        self.drain(out)
    }
}

/// Bytes of the unbounded fields of a row.
fn text_bytes(row: &Row) -> usize {
    let json = |value: &Option<Box<serde_json::value::RawValue>>| {
        value.as_ref().map_or(0, |value| value.get().len())
    };
    let whole = row.whole.as_ref().map_or(0, |whole| {
        json(&whole.input) + json(&whole.output) + whole.metadata.get().len()
    });
    let error = row
        .run
        .error
        .as_ref()
        .map_or(0, |error| error.message.len());
    whole + error + row.run.tags.iter().map(String::len).sum::<usize>()
}

fn schema(columns: &[Column]) -> String {
    let fields: String = columns
        .iter()
        .map(|Column { name, value }| match value {
            Value::Text(_) => format!("required binary {name} (STRING);"),
            Value::MaybeText(_) => format!("optional binary {name} (STRING);"),
            Value::Texts(_) => format!(
                "required group {name} (LIST) {{ repeated group list {{ required binary element (STRING); }} }}"
            ),
            Value::Count(_) => format!("optional int64 {name};"),
            Value::Money(_) => {
                format!("required fixed_len_byte_array(16) {name} (DECIMAL(38,18));")
            }
            Value::Time(_) => format!("required int64 {name} (TIMESTAMP(MILLIS,true));"),
            Value::MaybeTime(_) => format!("optional int64 {name} (TIMESTAMP(MILLIS,true));"),
            Value::Length(_) | Value::Number(_) => format!("optional double {name};"),
            Value::Flag(_) => format!("required boolean {name};"),
        })
        .collect();
    format!("message run {{ {fields} }}")
}

fn write(
    writer: &mut SerializedColumnWriter<'_>,
    value: Value,
    rows: &[Row],
) -> Result<(), ParquetError> {
    match value {
        Value::Text(read) => {
            let values: Vec<ByteArray> = rows.iter().map(|row| read(row).into()).collect();
            let column = writer.typed::<ByteArrayType>();
            column.write_batch(&values, None, None)?;
        }
        Value::MaybeText(read) => {
            let (values, levels) =
                optional(rows.iter().map(read).map(|text| text.map(ByteArray::from)));
            let column = writer.typed::<ByteArrayType>();
            column.write_batch(&values, Some(&levels), None)?;
        }
        Value::Texts(read) => {
            let (mut values, mut defined, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
            for row in rows {
                let texts = read(row);
                for (number, text) in texts.iter().enumerate() {
                    values.push(ByteArray::from(text.as_str()));
                    defined.push(1);
                    repeated.push(i16::from(number > 0));
                }
                if texts.is_empty() {
                    defined.push(0);
                    repeated.push(0);
                }
            }
            let column = writer.typed::<ByteArrayType>();
            column.write_batch(&values, Some(&defined), Some(&repeated))?;
        }
        Value::Count(read) => {
            let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
            let (values, levels) = optional(rows.iter().map(|row| read(row).map(count)));
            let column = writer.typed::<Int64Type>();
            column.write_batch(&values, Some(&levels), None)?;
        }
        Value::Money(read) => {
            let bytes = |row| FixedLenByteArray::from(read(row).0.to_be_bytes().to_vec());
            let values: Vec<FixedLenByteArray> = rows.iter().map(bytes).collect();
            let column = writer.typed::<FixedLenByteArrayType>();
            column.write_batch(&values, None, None)?;
        }
        Value::Time(read) => {
            let values: Vec<i64> = rows.iter().map(|row| read(row).0).collect();
            let column = writer.typed::<Int64Type>();
            column.write_batch(&values, None, None)?;
        }
        Value::MaybeTime(read) => {
            let (values, levels) = optional(rows.iter().map(|row| read(row).map(|time| time.0)));
            let column = writer.typed::<Int64Type>();
            column.write_batch(&values, Some(&levels), None)?;
        }
        Value::Length(read) => {
            let seconds = |row| read(row).map(|length| length.0 as f64 / 1000.0);
            let (values, levels) = optional(rows.iter().map(seconds));
            let column = writer.typed::<DoubleType>();
            column.write_batch(&values, Some(&levels), None)?;
        }
        Value::Number(read) => {
            let (values, levels) = optional(rows.iter().map(read));
            let column = writer.typed::<DoubleType>();
            column.write_batch(&values, Some(&levels), None)?;
        }
        Value::Flag(read) => {
            let values: Vec<bool> = rows.iter().map(read).collect();
            let column = writer.typed::<BoolType>();
            column.write_batch(&values, None, None)?;
        }
    }
    Ok(())
}

/// The existing values, and the definition level of each row.
fn optional<T>(all: impl Iterator<Item = Option<T>>) -> (Vec<T>, Vec<i16>) {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    for value in all {
        levels.push(i16::from(value.is_some()));
        values.extend(value);
    }
    (values, levels)
}

fn parquet_error(error: ParquetError) -> io::Error {
    io::Error::other(error)
}
