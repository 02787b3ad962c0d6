//! `/api/internal`.

mod cache;
mod jobs;
mod pipeline;
pub(crate) mod prices;
mod tokens;
