//! Which dead letters were redriven: a bit for each, in named blocks in the tables.
//!
//! Two processes that mark dead letters of one block at the same moment may lose a mark; the dead letter may then be
//! redriven once more on request, which changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use eventlog::Position;
use store::{Store, StoreError};

/// Dead letters in one block: its bits, as text, are a small part of the longest value.
const LETTERS: u64 = 4096;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    begin: u64,
    bits: Vec<u8>,
}

impl Block {
    /// The block of this offset, from its stored value.
    fn new(offset: u64, kept: Option<&str>) -> Self {
        let mut bits = kept
            .and_then(|text| hex::decode(text).ok())
            .unwrap_or_default();
        bits.resize((LETTERS / 8) as usize, 0);
        Self {
            begin: offset - offset % LETTERS,
            bits,
        }
    }

    /// The offset after its last one.
    pub(super) fn end(&self) -> u64 {
        self.begin.saturating_add(LETTERS)
    }

    pub(super) fn has(&self, offset: u64) -> bool {
        let (byte, bit) = self.place(offset);
        self.bits.get(byte).is_some_and(|bits| bits & bit != 0)
    }

    /// The first dead letter of this block at or after this offset that was not redriven.
    pub(super) fn first_unmarked(&self, from: u64) -> Option<u64> {
        (from..self.end()).find(|offset| !self.has(*offset))
    }

    fn mark(&mut self, offset: u64) {
        let (byte, bit) = self.place(offset);
        if let Some(bits) = self.bits.get_mut(byte) {
            *bits |= bit;
        }
    }

    fn place(&self, offset: u64) -> (usize, u8) {
        let at = offset.wrapping_sub(self.begin);
        // Offsets of other blocks have no byte in this one.
        let byte = usize::try_from(at / 8).unwrap_or(usize::MAX);
        (byte, 1 << (at % 8))
    }

    fn text(&self) -> String {
        hex::encode(&self.bits)
    }
}

/// Storage of blocks by name.
#[async_trait]
pub(super) trait Values: Send + Sync {
    async fn value(&self, name: &str) -> Result<Option<String>, StoreError>;

    async fn set(&self, name: &str, value: &str) -> Result<(), StoreError>;
}

#[async_trait]
impl Values for Store {
    async fn value(&self, name: &str) -> Result<Option<String>, StoreError> {
        self.deployment_value(name).await
    }

    async fn set(&self, name: &str, value: &str) -> Result<(), StoreError> {
        self.set_deployment_value(name, value).await
    }
}

pub(super) struct Marks {
    values: Arc<dyn Values>,
}

impl Marks {
    pub(super) fn new(values: Arc<dyn Values>) -> Self {
        Self { values }
    }

    pub(super) async fn block(&self, partition: u32, offset: u64) -> Result<Block, StoreError> {
        let kept = self.values.value(&name(partition, offset)).await?;
        Ok(Block::new(offset, kept.as_deref()))
    }

    /// Durable when this returns.
    pub(super) async fn mark(&self, positions: &[Position]) -> Result<(), StoreError> {
        let mut blocks: BTreeMap<(u32, u64), Vec<u64>> = BTreeMap::new();
        for position in positions {
            let key = (position.partition, position.offset / LETTERS);
            blocks.entry(key).or_default().push(position.offset);
        }
        for ((partition, _), offsets) in blocks {
            let Some(&first) = offsets.first() else {
                continue;
            };
            let mut block = self.block(partition, first).await?;
            for offset in offsets {
                block.mark(offset);
            }
            let name = name(partition, first);
            self.values.set(&name, &block.text()).await?;
        }
        Ok(())
    }
}

fn name(partition: u32, offset: u64) -> String {
    format!("redriven/{partition}/{}", offset / LETTERS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn marked_letters_and_no_others_are_marked_after_writing_and_reading(
            block in 0..5u64,
            at in proptest::collection::btree_set(0..LETTERS, 0..50),
            from in 0..LETTERS,
        ) {
            let begin = block * LETTERS;
            let mut written = Block::new(begin + from, None);
            for at in &at {
                written.mark(begin + at);
            }
            let text = written.text();
            prop_assert!(text.len() < store::platform::deployment::VALUE_BYTES_MAX);
            let read = Block::new(begin + 1, Some(&text));
            prop_assert_eq!(&read, &written);
            for offset in 0..LETTERS {
                prop_assert_eq!(read.has(begin + offset), at.contains(&offset));
            }
            prop_assert!(!read.has(read.end()));
            let expected = (from..LETTERS).find(|offset| !at.contains(offset));
            prop_assert_eq!(read.first_unmarked(begin + from), expected.map(|offset| begin + offset));
        }
    }
}
