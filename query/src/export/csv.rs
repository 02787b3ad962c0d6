//! CSV by RFC 4180: a header, CRLF, quotes where they are needed; tags as a JSON list, missing values empty.
//!
//! Text that a spreadsheet would execute as a formula gets a leading apostrophe, because rows contain reported text.
//! `formulas=raw` leaves it as it is.

use std::io;
use std::io::Write as _;

use schemas::timestamp::to_text;

use super::body::Encoder;
use super::row::{Column, Row, Shape, Value};

pub(crate) struct Csv {
    columns: Vec<Column>,
    is_guarded: bool,
    has_header: bool,
}

impl Csv {
    pub(crate) fn new(shape: Shape, is_guarded: bool) -> Self {
        Self {
            columns: shape.columns(),
            is_guarded,
            has_header: false,
        }
    }

    fn header(&mut self, out: &mut Vec<u8>) {
        if self.has_header {
            return;
        }
        self.has_header = true;
        let names: Vec<&str> = self.columns.iter().map(|column| column.name).collect();
        out.extend_from_slice(names.join(",").as_bytes());
        out.extend_from_slice(b"\r\n");
    }

    fn cell(&self, row: &Row, value: Value, out: &mut Vec<u8>) -> io::Result<()> {
        match value {
            Value::Text(read) => self.text(read(row), out),
            Value::MaybeText(read) => self.text(read(row).unwrap_or_default(), out),
            Value::Texts(read) => self.text(&serde_json::to_string(read(row))?, out),
            Value::Count(read) => {
                if let Some(count) = read(row) {
                    write!(out, "{count}")?;
                }
            }
            Value::Money(read) => write!(out, "{}", read(row))?,
            Value::Time(read) => out.extend_from_slice(to_text(read(row).0).as_bytes()),
            Value::MaybeTime(read) => {
                if let Some(time) = read(row) {
                    out.extend_from_slice(to_text(time.0).as_bytes());
                }
            }
            Value::Length(read) => {
                if let Some(length) = read(row) {
                    serde_json::to_writer(&mut *out, &length)?;
                }
            }
            Value::Number(read) => {
                if let Some(number) = read(row) {
                    serde_json::to_writer(&mut *out, &number)?;
                }
            }
            Value::Flag(read) => write!(out, "{}", read(row))?,
        }
        Ok(())
    }

    fn text(&self, text: &str, out: &mut Vec<u8>) {
        let guard = self.is_guarded && text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']);
        let is_quoted = text.contains(['"', ',', '\r', '\n']);
        if is_quoted {
            out.push(b'"');
        }
        if guard {
            out.push(b'\'');
        }
        if text.contains('"') {
            out.extend_from_slice(text.replace('"', "\"\"").as_bytes());
        } else {
            out.extend_from_slice(text.as_bytes());
        }
        if is_quoted {
            out.push(b'"');
        }
    }
}

impl Encoder for Csv {
    fn rows(&mut self, rows: Vec<Row>, out: &mut Vec<u8>) -> io::Result<()> {
        self.header(out);
        for row in &rows {
            for (number, column) in self.columns.iter().enumerate() {
                if number > 0 {
                    out.push(b',');
                }
                self.cell(row, column.value, out)?;
            }
            out.extend_from_slice(b"\r\n");
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.header(out);
        Ok(())
    }
}
