//! Work on whole tables: rebuild, retention, the text index, lost parts, and moving to another deployment.

pub mod losses;
pub mod rebuild;
pub mod relocation;
pub mod retention;
pub mod search_index;
mod statement;
