//! The one binary. Everything here is wiring: the work is in the crates `ingest`, `processor`, `query`, `eventlog`,
//! `store` and `schemas`; `ARCHITECTURE.md` says how they fit together.
//!
//! Start reading at [`cli`], which names every command, then [`serve`].

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod admin;
mod bench;
mod caches;
mod cli;
mod config;
mod control;
mod dead_letters;
mod health;
mod jobs;
mod logs;
mod moving;
mod serve;

fn main() -> std::process::ExitCode {
    cli::run()
}
