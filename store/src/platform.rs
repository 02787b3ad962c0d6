//! The small tables of a deployment: agreed values, claimed names, and the processes that it can start.

pub mod builds;
pub mod claims;
pub mod deployment;
pub mod instances;
pub mod scans;
