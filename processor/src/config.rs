//! Settings of the processor.

use std::time::Duration;

use crate::slices::Limits;

/// Settings of the processor. The defaults suit two cores.
#[derive(Clone, Debug)]
pub struct ProcessorConfig {
    /// Members of the consumer group in this process. Two let one fold while the other's rows are being written.
    pub workers: usize,
    /// Payload bytes of one micro-batch: large enough for few large blocks, small enough for memory and for
    /// visibility under load.
    pub batch_bytes: usize,
    /// How long a micro-batch that is not full waits for more. Part of the time from answer to visibility.
    pub batch_wait: Duration,
    /// Memory for states of runs that may change again soon.
    pub hot_bytes: u64,
    /// A hot run that nothing touched for this long leaves the memory.
    pub hot_idle: Duration,
    /// Longest pause between two tries while the store is away.
    pub retry_pause_max: Duration,
    /// So many records in a row that cannot be processed are not records that are bad, but a fault of this program or
    /// of whoever writes them: the processor stops, and leaves them in the log.
    pub poison_stop_records: u32,
    /// What one step does for runs that its records do not name.
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
            limits: Limits::default(),
        }
    }
}
