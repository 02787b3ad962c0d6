//! Settings of the processor.

use std::time::Duration;

/// The consumer group whose committed offsets say what is stored.
pub const GROUP: &str = "processor";

/// The defaults suit two cores.
#[derive(Clone, Debug)]
pub struct ProcessorConfig {
    /// Members of the consumer group in this process. With two, one folds while the rows of the other are written.
    pub workers: usize,
    /// Payload bytes of one micro-batch: large enough for few large blocks, small enough for memory and for visibility
    /// under load.
    pub batch_bytes: usize,
    /// Time from the beginning of a micro-batch to that of the next one, unless that is full earlier. Records that arrive
    /// after a quiet time do not wait for it.
    pub batch_wait: Duration,
    /// Memory for states of runs that may change again soon.
    pub hot_bytes: u64,
    /// A hot run is evicted after this time without an event.
    pub hot_idle: Duration,
    /// Longest pause between two retries while the store is away.
    pub retry_pause_max: Duration,
    /// After this many unprocessable records in a row the fault is in this program or in their producer: the processor
    /// stops and leaves them in the log.
    pub poison_stop_records: u32,
    /// After this long without a commit a partition in which records wait is stalled. Many times the longest step.
    pub stalled_after: Duration,
    pub limits: Limits,
}

impl Default for ProcessorConfig {
    fn default() -> Self {
        Self {
            workers: 2,
            batch_bytes: 64 << 20,
            batch_wait: Duration::from_millis(200),
            hot_bytes: 128 << 20,
            hot_idle: Duration::from_secs(600),
            retry_pause_max: Duration::from_secs(5),
            poison_stop_records: 100,
            stalled_after: Duration::from_secs(60),
            limits: Limits::default(),
        }
    }
}

/// Bounds on the work of one step for runs that its records do not name (X1).
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Descendants to load: 2,000 are read, resolved and stored in a fraction of a second.
    pub below: usize,
    /// Descendants to load for each run that the step's records name, where that is more: late parents with a few
    /// children each are not worth deferring.
    pub below_each: usize,
    /// Ancestors to load beyond the nearest levels.
    pub above: usize,
    /// Levels read one at a time before the levels further up or down are read from the links of the whole tree, and
    /// again after that. Exact roots and subtree totals need a cycle of parents in memory as a whole; up to twice as
    /// many runs always are.
    pub levels: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            below: 2000,
            below_each: 4,
            above: 2000,
            levels: 16,
        }
    }
}
