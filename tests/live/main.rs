//! The real binary under what happens to real servers: kills, full disks, stops in the middle of work.
//!
//! Every test starts servers of its own on free ports and folders; processes are ended by their number only.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod access;
mod attacks;
mod backing;
mod client;
mod datasets;
mod deployment;
mod disk;
mod faults;
mod folders;
mod front;
mod growth;
mod harness;
mod interface;
mod jobs;
mod kills;
mod letters;
mod listener;
mod load;
mod moving;
mod paging;
mod pipeline;
mod prices;
mod process;
mod provider;
mod recovery;
mod reference;
mod repartition;
mod rolling;
mod sessions;
mod stand;
mod stops;
mod tenancy;
mod threads;
mod tiers;
