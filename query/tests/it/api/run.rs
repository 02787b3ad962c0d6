//! `/api/run`.

mod compare;
mod detail;
pub(crate) mod export;
mod facets;
mod feedback;
mod list;
mod live;
