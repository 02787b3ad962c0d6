//! Inputs for the parsers that read bytes from outside: seeds, and edits of them.
//!
//! A target is a test in `tests/parsers`. It passes every seed to a parser unchanged, then seeds with a few random
//! edits, and checks what the parser promises beyond not panicking. `README.md` describes how to run one target for an
//! hour, with and without guidance by coverage.
//!
//! Start reading at [`Seeds`], then at any target.

mod edit;
mod json;
mod seeds;

use std::time::{Duration, Instant};

pub use seeds::{Input, Seeds, captured_bodies};

/// Upper bound on the time of one input. Inputs have at most [`INPUT_BYTES`] bytes, which every parser reads within
/// milliseconds; the rest is for a busy machine and a debug build.
const INPUT_TIMEOUT: Duration = Duration::from_secs(60);

/// Upper bound on the bytes of an input: enough for every structure, and few enough for thousands of inputs a second.
pub const INPUT_BYTES: usize = 64 << 10;

/// Runs a target: every seed once unchanged, then so many edited inputs. Prints a random seed and the shrunk input when
/// an input fails.
#[macro_export]
macro_rules! fuzz {
    ($seeds:expr, $iterations:expr, $examine:expr) => {{
        let target = ::bolero::check!().with_iterations($iterations);
        let seeds: $crate::Seeds = $seeds;
        for (name, bytes) in seeds.iter() {
            $crate::timed(name, || $examine(bytes));
        }
        target
            .with_generator(seeds)
            .for_each(|input: &$crate::Input| {
                $crate::timed("an input", || $examine(input.bytes()))
            });
    }};
}

/// Examines one input within the time limit.
///
/// # Panics
/// When it takes longer.
pub fn timed(name: &str, examine: impl FnOnce()) {
    let started = Instant::now();
    examine();
    let took = started.elapsed();
    assert!(
        took < INPUT_TIMEOUT,
        "{name} took {took:?}, the limit is {INPUT_TIMEOUT:?}"
    );
}
