//! The tables: their migrations, and their rows as they are written.

pub(crate) mod decode;
pub mod migrations;
pub(crate) mod row_binary;
pub mod rows;
pub(crate) mod runs;
