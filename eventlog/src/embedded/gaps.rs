//! Detection of missing segments and the records lost with them.
//!
//! Numbers of segments have no gaps, except at the start, where segments are removed once every group has committed
//! past them. So a missing number is a file that something else removed. Gaps between offsets alone prove nothing:
//! offsets of failed appends are not assigned again. So each segment stores where the log ended when it was created,
//! and the range between that and the end of the segment before it is lost, unless every group had committed it.

use std::fmt::{self, Display};
use std::ops::{Range, RangeInclusive};

/// The range of a segment.
#[derive(Clone, Debug)]
pub(crate) struct Extent {
    pub(crate) id: u64,
    /// By partition, where the log ended when the segment was created; `None` in segments of earlier versions.
    pub(crate) preceded: Option<Vec<u64>>,
    /// By partition, the first offset that may be in the segment.
    pub(crate) base: Vec<u64>,
    /// By partition, the offset after the last acknowledged one.
    pub(crate) ends: Vec<u64>,
}

/// Records that were accepted, not processed by every group, and are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    pub segments: RangeInclusive<u64>,
    /// The missing offsets, by partition. Empty where the newest segments are missing and the log was not closed
    /// cleanly: then nothing says where they ended.
    pub offsets: Vec<(u32, Range<u64>)>,
}

impl Loss {
    /// Upper bound on the number of missing records; `None` if unknown.
    pub fn records(&self) -> Option<u64> {
        let lengths = self.offsets.iter().map(|(_, lost)| lost.end - lost.start);
        (!self.offsets.is_empty()).then(|| lengths.sum())
    }

    /// The offsets of a few partitions, as text for an operator.
    pub(crate) fn places(&self) -> String {
        const SHOWN_MAX: usize = 8;
        let places = self.offsets.iter().take(SHOWN_MAX);
        let places = places.map(|(partition, lost)| {
            let last = lost.end.saturating_sub(1);
            format!("partition {partition} offsets {}-{last}", lost.start)
        });
        let mut places = places.collect::<Vec<_>>().join(", ");
        if self.offsets.len() > SHOWN_MAX {
            places.push_str(", and more");
        }
        places
    }
}

impl Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (self.segments.start(), self.segments.end());
        match first == last {
            true => write!(f, "log segment {first} is missing, with ")?,
            false => write!(f, "log segments {first} to {last} are missing, with ")?,
        }
        match self.records() {
            Some(records) => write!(
                f,
                "{records} accepted records that were not processed: {}",
                self.places()
            ),
            None => write!(f, "an unknown number of accepted records"),
        }
    }
}

/// What is recorded outside of the segments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Noted {
    /// Number of the newest recorded segment. A newer one may exist, created a moment before a crash.
    pub(crate) newest: Option<u64>,
    /// By partition, where the log ended when it was closed cleanly; `None` after a crash.
    pub(crate) ended: Option<Vec<u64>>,
}

/// The losses, given the segments that exist, oldest first, and the commits of the slowest group.
pub(crate) fn find(extents: &[Extent], floor: &[u64], noted: &Noted) -> Vec<Loss> {
    let mut losses = Vec::new();
    let mut covered = floor.to_vec();
    let mut next_id = 0;
    for (at, extent) in extents.iter().enumerate() {
        if extent.id > next_id {
            let ended = match (&extent.preceded, at) {
                (Some(preceded), _) => Some(preceded),
                // The first one's base may be beyond failed appends: no proof.
                (None, 0) => None,
                (None, _) => Some(&extent.base),
            };
            let offsets = ended.map_or_else(Vec::new, |ended| between(&covered, ended));
            if !offsets.is_empty() {
                losses.push(Loss {
                    segments: next_id..=extent.id - 1,
                    offsets,
                });
            }
        }
        for (covered, end) in covered.iter_mut().zip(&extent.ends) {
            *covered = (*covered).max(*end);
        }
        next_id = extent.id + 1;
    }
    if let Some(newest) = noted.newest.filter(|newest| *newest >= next_id) {
        let offsets = noted.ended.as_ref().map(|ended| between(&covered, ended));
        if offsets.as_ref().is_none_or(|offsets| !offsets.is_empty()) {
            losses.push(Loss {
                segments: next_id..=newest,
                offsets: offsets.unwrap_or_default(),
            });
        }
    }
    losses
}

/// The non-empty ranges from `covered` to `ended`, by partition.
fn between(covered: &[u64], ended: &[u64]) -> Vec<(u32, Range<u64>)> {
    let pairs = (0u32..).zip(covered.iter().zip(ended));
    let lost = pairs.filter(|(_, (covered, ended))| covered < ended);
    lost.map(|(partition, (covered, ended))| (partition, *covered..*ended))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(id: u64, preceded: u64, base: u64, end: u64) -> Extent {
        Extent {
            id,
            preceded: Some(vec![preceded, 0]),
            base: vec![base, 0],
            ends: vec![end, 0],
        }
    }

    fn noted(newest: u64) -> Noted {
        Noted {
            newest: Some(newest),
            ended: None,
        }
    }

    #[test]
    fn nothing_is_missing_from_a_log_that_was_trimmed_and_had_failed_appends() {
        let whole = [extent(0, 0, 0, 5), extent(1, 5, 8, 9), extent(2, 9, 9, 9)];
        assert_eq!(find(&whole, &[0, 0], &noted(2)), []);
        // The first was removed once everything in it was committed; 5 to 8 were never acknowledged.
        assert_eq!(find(&whole[1..], &[5, 0], &noted(2)), []);
        assert_eq!(find(&whole[2..], &[9, 0], &noted(1)), [], "noted late");
        assert_eq!(find(&[], &[0, 0], &Noted::default()), []);
    }

    #[test]
    fn removed_segments_are_told_with_what_nobody_had_processed() {
        let whole = [
            extent(0, 0, 0, 5),
            extent(1, 5, 8, 20),
            extent(2, 20, 20, 30),
        ];
        let first = find(&whole[1..], &[2, 0], &noted(2));
        assert_eq!(first[0].segments, 0..=0);
        assert_eq!(first[0].offsets, [(0, 2..5)]);
        let middle = find(&[whole[0].clone(), whole[2].clone()], &[2, 0], &noted(2));
        assert_eq!(middle[0].offsets, [(0, 5..20)]);
        assert_eq!(middle[0].records(), Some(15));
        let processed = find(&[whole[0].clone(), whole[2].clone()], &[20, 0], &noted(2));
        assert_eq!(processed, [], "every group was past it");
        let newest = find(&whole[..1], &[2, 0], &noted(2));
        assert_eq!(
            (newest[0].segments.clone(), newest[0].records()),
            (1..=2, None)
        );
        let closed = |end| Noted {
            ended: Some(vec![end, 0]),
            ..noted(2)
        };
        let known = find(&whole[..1], &[2, 0], &closed(30));
        assert_eq!(known[0].offsets, [(0, 5..30)]);
        assert_eq!(find(&[], &[30, 0], &closed(30)), [], "all was processed");
        let all = find(&[], &[2, 0], &noted(2));
        assert_eq!(all[0].segments, 0..=2);
        let text = middle[0].to_string();
        assert!(
            text.contains("segment 1 is") && text.contains("5-19"),
            "{text}"
        );
    }

    #[test]
    fn segments_of_earlier_versions_prove_gaps_between_them_only() {
        let old = |id, base, end| Extent {
            preceded: None,
            ..extent(id, 0, base, end)
        };
        assert_eq!(find(&[old(1, 8, 9)], &[5, 0], &Noted::default()), []);
        let gap = find(&[old(0, 0, 5), old(2, 9, 12)], &[0, 0], &Noted::default());
        assert_eq!(gap[0].offsets, [(0, 5..9)]);
    }
}
