//! `spindle-bench`: the load generator and the benchmarks of single parts, one command each.
//!
//! `load` measures a running server from outside. The others measure one part alone and start what it needs: most a
//! separate engine, none a server. `docs/guide/benchmark.md` explains the numbers.
//!
//! Start reading at [`Command`].

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod analytics;
mod append;
mod connection;
mod engine;
mod export;
mod fold;
mod goals;
mod insert;
mod list;
mod load;
mod lookup;
mod pages;
mod price;
mod process;
mod recalculate;
mod round;
mod runs_table;
mod thread;

use clap::{Parser, Subcommand};

/// Load generator and benchmarks of Spindle.
#[derive(Parser)]
#[command(name = "spindle-bench", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Every goal for speed and memory, measured and beside the goal
    Goals(goals::GoalsArgs),
    /// Sends events to a running server and measures answers, storing and visibility
    Load(load::LoadArgs),
    /// Run list: pages by filter over a table of many runs
    List(runs_table::RunsTableArgs),
    /// Run list of a running server, over HTTP, while its table is live
    Pages(pages::PagesArgs),
    /// Usage totals, facets and text search over the same table
    Analytics(runs_table::RunsTableArgs),
    /// Thread list over a million messages
    Thread(thread::ThreadArgs),
    /// Exports of runs and datasets: time, bytes and resident memory
    Export(export::ExportArgs),
    /// Raw inserts of events and runs into an engine
    Insert(insert::InsertArgs),
    /// The processor's lookups over many stored runs
    Lookup(lookup::LookupArgs),
    /// Appends to the embedded log, with or without a reader
    Append(append::AppendArgs),
    /// Decoding, folding and pricing in the processor, without log and tables
    Fold(fold::FoldArgs),
    /// Pricing of one model call
    Price,
    /// A recalculation of all costs, from the request to the last total
    Recalculate(recalculate::RecalculateArgs),
    /// The embedded engine, started as a child process
    #[command(hide = true)]
    Engine,
}

fn main() -> anyhow::Result<()> {
    let command = Cli::parse().command;
    match command {
        Command::Engine => store::engine::run(),
        // Measured as CPU time of one thread.
        Command::Fold(args) => tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?
            .block_on(fold::run(&args)),
        Command::Price => price::run(),
        command => tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?
            .block_on(run(command)),
    }
}

async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Goals(args) => goals::run(args).await,
        Command::Load(args) => load::run(args).await,
        Command::List(args) => list::run(args).await.map(drop),
        Command::Pages(args) => pages::run(args).await.map(drop),
        Command::Analytics(args) => analytics::run(args).await.map(drop),
        Command::Thread(args) => thread::run(args).await.map(drop),
        Command::Export(args) => export::run(args).await,
        Command::Insert(args) => insert::run(args).await.map(drop),
        Command::Lookup(args) => lookup::run(args).await,
        Command::Append(args) => append::run(args).await,
        Command::Recalculate(args) => recalculate::run(args).await.map(drop),
        Command::Engine | Command::Fold(_) | Command::Price => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
