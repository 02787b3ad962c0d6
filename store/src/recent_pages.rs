//! What earlier first pages tell about the next one: how far back it reaches, and how many runs that range holds.
//!
//! The newest page of a project is read all day, and the time of a small read is the time to plan it. So the second
//! page of a kind is one read of its range instead of a search for its keys first. What is remembered is never an
//! answer: whatever it says, a page is complete, and where it is wrong the page takes a read more.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use moka::sync::Cache;
use schemas::timestamp::UnixMs;

/// Runs in a range that is read merged at once: 2,000 take as long as finding the keys of a page and reading those.
const RANGE_RUNS: f64 = 2000.0;
/// Kinds of pages remembered (X1).
const KINDS: u64 = 10_000;
const KEPT: Duration = Duration::from_secs(600);
/// A page of fewer runs says too little about how many runs there are.
const RUNS_FOR_DENSITY: usize = 20;
/// The extent of the table only says where to look first.
const EXTENT_KEPT: Duration = Duration::from_secs(30);

/// The memory of one process.
pub(crate) struct RecentPages {
    pages: Cache<u64, Page>,
    extent: Mutex<Option<(Instant, (UnixMs, UnixMs))>>,
    hasher: RandomState,
}

/// A first page, newest run first.
#[derive(Clone, Copy, Debug)]
struct Page {
    /// When it was read.
    at_ms: UnixMs,
    runs: f64,
    /// Start of its last run; `None` if all matching runs are on it.
    last_ms: Option<UnixMs>,
}

/// The kind of a page: those with equal conditions and of equal length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    page: u64,
    /// Pages whose conditions are on the same fields, with any values.
    shape: u64,
    /// Pages of the same scope without a filter, of any length.
    everything: u64,
    need: usize,
    is_filtered: bool,
}

/// The first range to read for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// Its far end; `None` for everything.
    pub(crate) far: Option<UnixMs>,
    /// Whether it holds few runs, matching or not.
    pub(crate) is_short: bool,
}

impl Default for RecentPages {
    fn default() -> Self {
        Self {
            pages: Cache::builder()
                .max_capacity(KINDS)
                .time_to_live(KEPT)
                .build(),
            extent: Mutex::new(None),
            hasher: RandomState::new(),
        }
    }
}

impl RecentPages {
    /// The kind of first pages with this scope and filter, bounds on the start apart. `shape` is the filter without its
    /// values.
    pub(crate) fn kind<C>(&self, scope: &C, filter: &C, shape: &str, need: usize) -> Kind
    where
        C: Hash + Default + PartialEq,
    {
        Kind {
            page: self.hasher.hash_one((scope, filter, need)),
            shape: self.hasher.hash_one((scope, shape, need)),
            everything: self.hasher.hash_one(scope),
            need,
            is_filtered: *filter != C::default(),
        }
    }

    /// The range to begin with, if pages of this kind were read before, or one of the same shape that ended near.
    pub(crate) fn range(&self, kind: Kind, now_ms: UnixMs) -> Option<Range> {
        match self.pages.get(&kind.page) {
            Some(page) => Some(self.range_of(page, kind, now_ms)),
            // Another value may be found as often, or half as often. Where it is not, little was read, and the page goes
            // on from there.
            None => {
                let page = self.pages.get(&kind.shape)?;
                let Range { far, is_short } = self.range_of(page, kind, now_ms);
                let age_ms = now_ms.saturating_sub(far?);
                let most_ms = self.pages.get(&kind.everything)?.age_of(RANGE_RUNS);
                let far = now_ms.saturating_sub((2 * age_ms).min(most_ms));
                is_short.then_some(Range {
                    far: Some(far),
                    is_short,
                })
            }
        }
    }

    fn range_of(&self, page: Page, kind: Kind, now_ms: UnixMs) -> Range {
        let Some(last_ms) = page.last_ms else {
            return Range {
                far: None,
                is_short: false,
            };
        };
        let everything = self.pages.get(&kind.everything);
        let runs = |far| Some(everything?.runs_since(far, now_ms));
        let is_short = |far| runs(far).is_some_and(|runs| runs <= RANGE_RUNS);
        // Without new runs it is the same page; with many, one of the same age.
        let same = page.runs_since(last_ms, now_ms) <= 4.0 * page.runs;
        let far = match same || is_short(last_ms) {
            true => last_ms,
            false => now_ms.saturating_sub(page.age_ms() / 2 * 3),
        };
        Range {
            far: Some(far),
            is_short: is_short(far),
        }
    }

    /// Remembers a page that was read at `now_ms`; `last_ms` is the start of its last run, if there are more.
    pub(crate) fn remember(
        &self,
        kind: Kind,
        runs: usize,
        last_ms: Option<UnixMs>,
        now_ms: UnixMs,
    ) {
        let page = Page {
            at_ms: now_ms,
            runs: runs as f64,
            last_ms,
        };
        self.pages.insert(kind.page, page);
        if last_ms.is_some() {
            self.pages.insert(kind.shape, page);
        }
        if !kind.is_filtered && runs >= RUNS_FOR_DENSITY && last_ms.is_some() {
            self.pages.insert(kind.everything, page);
        }
    }

    /// Forgets a kind whose range was too large.
    pub(crate) fn forget(&self, kind: Kind) {
        self.pages.invalidate(&kind.page);
        self.pages.invalidate(&kind.shape);
        self.pages.invalidate(&kind.everything);
    }

    /// Starts of the oldest and the newest run, as they were some seconds ago.
    pub(crate) fn extent(&self) -> Option<(UnixMs, UnixMs)> {
        let kept = *self.extent.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, extent) = kept?;
        (at.elapsed() < EXTENT_KEPT).then_some(extent)
    }

    pub(crate) fn remember_extent(&self, extent: (UnixMs, UnixMs)) {
        let mut kept = self.extent.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Some((Instant::now(), extent));
    }
}

impl Page {
    /// Age of its last run when it was read.
    fn age_ms(&self) -> i64 {
        self.last_ms
            .map_or(0, |last_ms| self.at_ms.saturating_sub(last_ms))
            .max(1)
    }

    /// Estimated age of the last of so many runs, milliseconds.
    fn age_of(&self, runs: f64) -> i64 {
        (self.age_ms() as f64 * runs / self.runs) as i64
    }

    /// Estimated number of runs between `far_ms` and now, at the rate of the page.
    fn runs_since(&self, far_ms: UnixMs, now_ms: UnixMs) -> f64 {
        self.runs * now_ms.saturating_sub(far_ms) as f64 / self.age_ms() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMs = 1_800_000_000_000;
    const NONE: &str = "";
    const ERRORS: &str = "status = 'error'";

    #[test]
    fn the_next_page_is_read_from_where_the_last_one_ended() {
        let pages = RecentPages::default();
        let all = pages.kind(&NONE, &NONE, NONE, 51);
        assert_eq!(pages.range(all, NOW), None);
        pages.remember(all, 51, Some(NOW - 10_000), NOW);
        let range = |far, is_short| Some(Range { far, is_short });
        assert_eq!(pages.range(all, NOW + 500), range(Some(NOW - 10_000), true));
        // A minute later there are 350 runs more, if they still arrive.
        let later = NOW + 60_000;
        assert_eq!(pages.range(all, later), range(Some(NOW - 10_000), true));
        // After an hour the page of before is a guess; one of the same age is a better one.
        let later = NOW + 3_600_000;
        assert_eq!(pages.range(all, later), range(Some(later - 15_000), true));
    }

    #[test]
    fn a_filter_that_finds_little_is_searched_for_keys_first() {
        let pages = RecentPages::default();
        let all = pages.kind(&NONE, &NONE, NONE, 51);
        let errors = pages.kind(&NONE, &ERRORS, ERRORS, 51);
        pages.remember(errors, 51, Some(NOW - 300_000), NOW);
        let range = |is_short| {
            Some(Range {
                far: Some(NOW - 300_000),
                is_short,
            })
        };
        assert_eq!(pages.range(errors, NOW), range(false), "no density known");
        pages.remember(all, 51, Some(NOW - 10_000), NOW);
        assert_eq!(pages.range(errors, NOW), range(true), "1530 runs");
        pages.remember(all, 51, Some(NOW - 1000), NOW);
        assert_eq!(pages.range(errors, NOW), range(false), "15300 runs");
        pages.remember(errors, 3, None, NOW);
        let whole = Some(Range {
            far: None,
            is_short: false,
        });
        assert_eq!(pages.range(errors, NOW), whole);
        pages.forget(errors);
        assert_eq!(pages.range(errors, NOW), None);
    }

    #[test]
    fn another_value_is_first_sought_where_the_last_one_was_found() {
        let pages = RecentPages::default();
        let all = pages.kind(&NONE, &NONE, NONE, 51);
        let of = |value| pages.kind(&NONE, &value, "latency_ms >= {}", 51);
        pages.remember(all, 51, Some(NOW - 10_000), NOW);
        assert_eq!(pages.range(of("2"), NOW), None);
        pages.remember(of("2"), 51, Some(NOW - 30_000), NOW);
        let near = Some(Range {
            far: Some(NOW - 60_000),
            is_short: true,
        });
        assert_eq!(pages.range(of("3"), NOW), near);
        // 51 runs in 10 s are 2,000 in 392 s.
        pages.remember(of("2"), 51, Some(NOW - 300_000), NOW);
        let most = pages.range(of("3"), NOW).and_then(|range| range.far);
        assert_eq!(most, Some(NOW - 392_156));
        pages.remember(of("2"), 51, Some(NOW - 30_000), NOW);
        // What is found far away or nowhere says nothing about other values.
        pages.remember(of("4"), 3, None, NOW);
        assert_eq!(pages.range(of("3"), NOW), near);
        pages.remember(of("5"), 51, Some(NOW - 3_000_000), NOW);
        assert_eq!(pages.range(of("3"), NOW), None);
    }

    #[test]
    fn pages_of_other_scopes_filters_and_lengths_say_nothing() {
        let pages = RecentPages::default();
        let kind = pages.kind(&NONE, &NONE, NONE, 51);
        pages.remember(kind, 51, Some(NOW - 10), NOW);
        for other in [
            pages.kind(&ERRORS, &NONE, NONE, 51),
            pages.kind(&NONE, &ERRORS, ERRORS, 51),
            pages.kind(&NONE, &NONE, NONE, 2),
        ] {
            assert_eq!(pages.range(other, NOW), None);
        }
    }
}
