//! `/v1`: what clients of lunary ask.

mod datasets;
mod runs;
mod templates;
