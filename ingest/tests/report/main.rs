//! `POST /api/report` as a client sees it: the real router over a log in memory.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod answers;
mod apps;
mod bodies;
mod captures;
mod credentials;
mod fixture;
mod inside;
mod langfuse;
mod log_away;
mod older;
mod otlp;
mod recordings;
mod secrecy;
