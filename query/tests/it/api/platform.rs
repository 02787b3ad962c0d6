//! `/api/platform` and `/rtm`.

mod process;
mod scan;
