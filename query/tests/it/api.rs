//! `/api`.

mod analytics;
mod app;
pub(crate) mod dataset;
mod internal;
mod platform;
pub(crate) mod run;
mod session;
mod thread;
