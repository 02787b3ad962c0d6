//! The one binary. Everything here is wiring: the work is in the crates `ingest`, `processor`, `query`, `eventlog`,
//! `store` and `schemas`; `ARCHITECTURE.md` describes how they fit together.
//!
//! Start reading at [`cli`], which names every command, then [`serve`].

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod admin;
mod caches;
mod cli;
mod config;
mod dead_letters;
mod health;
mod jobs;
mod listener;
mod logs;
mod moving;
mod serve;

fn main() -> std::process::ExitCode {
    cli::run()
}

#[cfg(test)]
#[path = "../tests/golden/golden.rs"]
mod golden;
