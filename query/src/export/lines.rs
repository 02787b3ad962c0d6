//! JSON lines: each line is a run in the shape of the list.

use std::io;

use super::body::Encoder;
use super::row::Row;

pub(crate) struct JsonLines;

impl Encoder for JsonLines {
    fn rows(&mut self, rows: Vec<Row>, out: &mut Vec<u8>) -> io::Result<()> {
        for row in &rows {
            match &row.whole {
                // The same bytes as below, without the cost of flattening.
                None => serde_json::to_writer(&mut *out, &row.run)?,
                Some(_) => serde_json::to_writer(&mut *out, row)?,
            }
            out.push(b'\n');
        }
        Ok(())
    }

    fn end(&mut self, _: &mut Vec<u8>) -> io::Result<()> {
        Ok(())
    }
}
