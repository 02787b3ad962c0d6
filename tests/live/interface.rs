//! The interface of platform administration, field by field: one row for each documented field, header and error, so
//! that a reader can tick the document off against it. One file for each of its operations.

mod cache;
mod rescan;
mod start;
