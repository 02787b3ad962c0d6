//! The partition of a key.

/// The partition of a key: XXH3 (64 bits, seed 0) of the key's bytes, modulo the number of partitions.
///
/// This is part of the format on disk: with another function, or another number of partitions, records of one key
/// would lie in two partitions and lose their order (L2).
pub fn partition_of(key: &[u8], partitions: u32) -> u32 {
    let hash = xxhash_rust::xxh3::xxh3_64(key);
    // The remainder is below `partitions`, which is a u32.
    (hash % u64::from(partitions.max(1))) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_partition_of_a_key_never_changes() {
        assert_eq!(partition_of(b"project/app", 8), 1);
        // XXH3 of nothing is 0x2d06800538d394c2.
        assert_eq!(partition_of(b"", 8), 2);
        assert_eq!(partition_of(b"a", 1), 0);
    }

    #[test]
    fn keys_spread_over_all_partitions() {
        let mut seen = [0u32; 8];
        for i in 0..800 {
            let key = format!("project/app-{i}");
            seen[partition_of(key.as_bytes(), 8) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| n > 50), "{seen:?}");
    }
}
