//! Numbers of instances and tokens: exact in JavaScript, and unique over all processes and restarts.
//!
//! A process claims a block of numbers for ever and counts inside of it; unused numbers stay unused.

use tokio::sync::Mutex;

use crate::client::Store;
use crate::error::StoreError;
use crate::platform::claims::Holds;

/// Numbers in one block: 35 minutes at 500 a second. There are 2^33 blocks below 2^53, enough for a start of a process
/// every second for 270 years.
const BLOCK_BITS: u32 = 20;
/// The first number that is not exact in JavaScript.
const EXACT_END: u64 = 1 << 53;
/// Attempts to claim a block: each fails only where several processes claim at the same moment.
const TRIES: u32 = 30;
/// Prefix of the names of blocks.
const PREFIX: &str = "instance_ids/";

const HIGHEST: &str = "SELECT max(toUInt64OrZero(substring(name, length({prefix:String}) + 1))) FROM claims \
    WHERE startsWith(name, {prefix:String})";

/// The rest of a process's block.
#[derive(Default)]
pub(super) struct Ids {
    left: Mutex<std::ops::Range<u64>>,
}

impl Ids {
    /// The first of `count` consecutive numbers, reserved for the caller.
    pub(super) async fn take(
        &self,
        store: &Store,
        by: &str,
        count: u64,
    ) -> Result<u64, StoreError> {
        if count > 1 << BLOCK_BITS {
            return Err(StoreError::Invalid(format!("{count} numbers at once")));
        }
        let mut left = self.left.lock().await;
        if left.end - left.start < count {
            *left = numbers_of(claim_block(store, by).await?)?;
        }
        let first = left.start;
        left.start += count;
        Ok(first)
    }
}

fn numbers_of(block: u64) -> Result<std::ops::Range<u64>, StoreError> {
    let first = block
        .checked_mul(1 << BLOCK_BITS)
        .filter(|first| first + (1 << BLOCK_BITS) <= EXACT_END);
    let first = first.ok_or_else(|| StoreError::Invalid("there are no numbers left".to_owned()))?;
    Ok(first..first + (1 << BLOCK_BITS))
}

async fn claim_block(store: &Store, by: &str) -> Result<u64, StoreError> {
    for tries in 0..TRIES {
        let highest = store.bounded_query(HIGHEST).param("prefix", PREFIX);
        let highest: u64 = highest.one().await?;
        // Processes that met at one block spread out.
        let block = highest + 1 + rand::random_range(0..=u64::from(tries * 4));
        if store
            .claim(&format!("{PREFIX}{block}"), by, Holds::Forever)
            .await?
        {
            tracing::debug!(claim.block = block, "a block of numbers is claimed");
            return Ok(block);
        }
    }
    Err(StoreError::Unavailable(
        "no block of numbers could be claimed".to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_do_not_touch_and_end_where_numbers_are_no_longer_exact() {
        assert_eq!(numbers_of(1).ok(), Some(1 << 20..2 << 20));
        assert_eq!(numbers_of(2).ok(), Some(2 << 20..3 << 20));
        let last = numbers_of((1 << 33) - 1).ok();
        assert_eq!(last.map(|numbers| numbers.end), Some(EXACT_END));
        assert!(numbers_of(1 << 33).is_err() && numbers_of(u64::MAX).is_err());
    }
}
