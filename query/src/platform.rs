//! `/api/platform` and `/rtm`: scans, builds and process starts.

pub(crate) mod process;
pub mod scan;

pub use process::headers;
